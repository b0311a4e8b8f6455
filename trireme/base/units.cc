#include "trireme/base/units.h"

#include <array>
#include <charconv>
#include <cmath>

namespace trireme {

std::string format_duration(TimeNs ns) {
  const double s = to_seconds(ns);
  if (ns < 0) return fmt::format("-{}", format_duration(-ns));
  if (ns < kMicro) return fmt::format("{} ns", ns);
  if (ns < kMilli) return fmt::format("{:.3g} us", s * 1e6);
  if (ns < kSecond) return fmt::format("{:.3g} ms", s * 1e3);
  if (s < 60) return fmt::format("{:.2f} s", s);
  const auto whole = static_cast<std::int64_t>(s);
  if (s < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string format_count(double value) {
  if (std::abs(value) >= 1e9) return fmt::format("{:.2f} G", value * 1e-9);
  if (std::abs(value) >= 1e6) return fmt::format("{:.2f} M", value * 1e-6);
  if (std::abs(value) >= 1e3) return fmt::format("{:.1f} k", value * 1e-3);
  return fmt::format("{:.0f}", value);
}

std::string format_integer(std::int64_t value) {
  const std::string digits = fmt::format("{}", value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  double scale = 0;
  if (unit.empty() || unit == "B") scale = 1;
  if (unit == "K" || unit == "KB" || unit == "KiB") scale = 1024.0;
  if (unit == "M" || unit == "MB" || unit == "MiB") scale = 1024.0 * 1024;
  if (unit == "G" || unit == "GB" || unit == "GiB") scale = 1024.0 * 1024 * 1024;
  if (failure != std::errc() || scale == 0 || value < 0 || value * scale > 9e18)
    return error(Code::kInvalid, "[units] not a size: got '{}', expected e.g. 512, 64K, 1.5MiB", text);
  return static_cast<std::uint64_t>(value * scale + 0.5);
}

}  // namespace trireme
