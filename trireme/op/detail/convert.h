// Conversion between element types.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

namespace trireme::op::detail {

// A conversion that is defined for every value: floating to integer truncates, saturates, and takes NaN to 0.
template <typename To, typename From>
To convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(v)) return 0;
    const double wide = static_cast<double>(v);
    // 2^63 as a double is just past the largest i64, so >= is the right test for every width.
    if (wide >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    if (wide <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return static_cast<To>(wide);
  } else {
    return static_cast<To>(v);
  }
}

}  // namespace trireme::op::detail
