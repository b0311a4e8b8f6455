// Checks of numbers on the command line that say what they want.
#pragma once

#include <cstdint>

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
template <class T>
CLI::Validator in_range_check(T least, T most, const char* kind) {
  const auto check = [least, most, kind](std::string& text) -> std::string {
    T value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    return fmt::format("got '{}', expected {} from {} to {}", text, kind, least, most);
  };
  return CLI::Validator(check, fmt::format("{} to {}", least, most));
}
inline CLI::Validator integer_in(std::int64_t least, std::int64_t most) {
  return in_range_check<std::int64_t>(least, most, "an integer");
}
inline CLI::Validator number_in(double least, double most) {
  return in_range_check<double>(least, most, "a number");
}
inline CLI::Validator above_zero() { return number_check(false); }
inline CLI::Validator zero_or_more() { return number_check(true); }

}  // namespace trireme::cli
