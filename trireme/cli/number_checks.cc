#include "trireme/cli/number_checks.h"

#include <fmt/format.h>
#include <charconv>

namespace trireme::cli {
namespace {

template <class T>
bool read_number(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [at, failure] = std::from_chars(text.data() + text.starts_with('+'), end, value);
  return failure == std::errc() && at == end;
}

Check number_check(bool may_be_zero) {
  const auto check = [may_be_zero](const std::string& text) -> std::string {
    double value = 0;
    if (read_number(text, value) && (value > 0 || (may_be_zero && value == 0))) return {};
    return fmt::format("got '{}', expected a number {}", text, may_be_zero ? "from 0" : "above 0");
  };
  return {check, may_be_zero ? "NONNEGATIVE" : "POSITIVE"};
}

template <class T>
Check in_range_check(T least, T most, const char* kind) {
  const auto check = [least, most, kind](const std::string& text) -> std::string {
    T value{};
    if (read_number(text, value) && value >= least && value <= most) return {};
    return fmt::format("got '{}', expected {} from {} to {}", text, kind, least, most);
  };
  return {check, fmt::format("{} to {}", least, most)};
}

}  // namespace

Check integer_in(std::int64_t least, std::int64_t most) {
  return in_range_check<std::int64_t>(least, most, "an integer");
}
Check number_in(double least, double most) { return in_range_check<double>(least, most, "a number"); }
Check above_zero() { return number_check(false); }
Check zero_or_more() { return number_check(true); }

}  // namespace trireme::cli
