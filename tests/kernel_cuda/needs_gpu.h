// Tests that need a GPU are skipped with the reason where there is none, and fail where one was promised:
// TRIREME_NEEDS_GPU is set by `./run test --gpu`.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

// First in a test, or in SetUp(). `why` is empty where there is a GPU.
#define TR_NEEDS_GPU(why)                                                                       \
  do {                                                                                          \
    const std::string reason = (why);                                                           \
    if (!reason.empty() && std::getenv("TRIREME_NEEDS_GPU") != nullptr) GTEST_FAIL() << reason; \
    if (!reason.empty()) GTEST_SKIP() << reason;                                                \
  } while (false)
