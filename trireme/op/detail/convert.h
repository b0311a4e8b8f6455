// Conversion between element types.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "trireme/op/detail/dispatch.h"

namespace trireme::op::detail {

// Rounds to odd: towards zero, and where that is not exact the last bit is set. A later rounding to fewer
// bits then gives what rounding once would have given (Boldo and Melquiond, 2008).
inline float round_to_odd(double v) {
  const float nearest = static_cast<float>(v);
  const double back = static_cast<double>(nearest);
  if (std::isnan(v) || back == v) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(back) > std::abs(v)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

// A conversion that is defined for every value: floating to integer truncates, saturates, and takes NaN to 0;
// to a 16-bit float rounds once, to the nearest even (i64: after f64).
template <typename To, typename From>
To convert(From v) {
  constexpr bool kFromFloat = kIsFloating<From> || std::is_floating_point_v<From>;
  if constexpr (std::is_same_v<To, bool>) {
    return static_cast<bool>(v);
  } else if constexpr (kFromFloat && std::is_integral_v<To>) {
    const double wide = static_cast<double>(v);
    if (std::isnan(wide)) return 0;
    // 2^63 as a double is just past the largest i64, so >= is the right test for every width.
    if (wide >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    if (wide <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return static_cast<To>(wide);
  } else if constexpr (kIsHalf<To> && (std::is_integral_v<From> || sizeof(From) == sizeof(double))) {
    return To(round_to_odd(static_cast<double>(v)));
  } else if constexpr (kIsHalf<To>) {
    return To(static_cast<float>(v));
  } else if constexpr (kIsHalf<From>) {
    return static_cast<To>(static_cast<float>(v));
  } else {
    return static_cast<To>(v);
  }
}

}  // namespace trireme::op::detail
