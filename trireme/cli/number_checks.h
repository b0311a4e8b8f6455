// Checks of numbers on the command line that say what they want.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace trireme::cli {

inline CLI::Validator number_check(bool may_be_zero) {
  const auto check = [may_be_zero](std::string& text) -> std::string {
    double value = 0;
    const bool read = CLI::detail::lexical_cast(text, value);
    if (read && (value > 0 || (may_be_zero && value == 0))) return {};
    return fmt::format("got '{}', expected a number {}", text, may_be_zero ? "from 0" : "above 0");
  };
  return CLI::Validator(check, may_be_zero ? "NONNEGATIVE" : "POSITIVE");
}
inline CLI::Validator above_zero() { return number_check(false); }
inline CLI::Validator zero_or_more() { return number_check(true); }

}  // namespace trireme::cli
