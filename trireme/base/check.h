// TR_CHECK: abort on a broken invariant, with the condition, the place and a formatted message.
// For mistakes of callers and failures of the world use Status (status.h).
#pragma once

#include <fmt/core.h>

#include <string>

namespace trireme::internal {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);
inline std::string check_message() { return {}; }
template <typename... Args>
std::string check_message(fmt::format_string<Args...> text, Args&&... args) {
  return fmt::format(text, std::forward<Args>(args)...);
}
}  // namespace trireme::internal

#define TR_CHECK(condition, ...)                                                          \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::trireme::internal::check_failed(__FILE__, __LINE__, #condition,                   \
                                        ::trireme::internal::check_message(__VA_ARGS__)); \
  } while (false)
