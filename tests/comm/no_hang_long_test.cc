// Thousands of seeds (no_hang_test.cc).
#include <gtest/gtest.h>

#include "tests/comm/no_hang.h"

namespace trireme::comm::testing {
namespace {

class NoHangLong : public ::testing::TestWithParam<const char*> {};

TEST_P(NoHangLong, EverybodyIsToldTheSameInTimeFromThousandsOfSeeds) {
  for (std::uint64_t seed = 1000; seed < 9000 && !HasFailure(); ++seed)
    check_scene(draw_scene(seed, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Virtual, NoHangLong, ::testing::Values("inproc", "shm", "tcp"));

}  // namespace
}  // namespace trireme::comm::testing
