// Units of time and size, and how people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/base/status.h"

namespace trireme {

// Nanoseconds since the start of a Runtime's clock; durations too. Signed, so that differences are safe.
using TimeNs = std::int64_t;
inline constexpr TimeNs kMicro = 1'000, kMilli = 1'000'000, kSecond = 1'000'000'000;
inline constexpr TimeNs kForever = INT64_MAX;

inline double to_seconds(TimeNs ns) { return static_cast<double>(ns) * 1e-9; }
inline TimeNs from_seconds(double s) { return static_cast<TimeNs>(s * 1e9 + 0.5); }

std::string format_duration(TimeNs ns);          // "1.50 s", "320 us", "2 min 05 s"
std::string format_bytes(std::uint64_t bytes);   // "1.5 MiB"
std::string format_count(double value);          // "12.3 k", "4.56 M"
std::string format_integer(std::int64_t value);  // "1,876"
Result<std::uint64_t> parse_bytes(
    std::string_view text);  // "64K", "1MB", "1.5MiB" (K, M, G are powers of 1024)

}  // namespace trireme
