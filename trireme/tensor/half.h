// The two 16-bit floating types. They hold values; arithmetic happens in float: an operand turns into a float
// by itself, a result is rounded to nearest even when stored. Kernels accumulate in float and store once.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "trireme/tensor/dtype.h"

namespace trireme {

// Rounds to nearest even; NaN stays a (quiet) NaN, overflow becomes infinity.
constexpr std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}
constexpr float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

constexpr std::uint16_t f16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U)
    return static_cast<std::uint16_t>(sign | 0x7E00U | ((magnitude >> 13U) & 0x3FFU));
  if (magnitude >= 0x477FF000U)
    return static_cast<std::uint16_t>(sign | 0x7C00U);  // >= 65520 rounds to infinity
  if (magnitude < 0x38800000U) {
    // Below 2^-14: a multiple of 2^-24. Adding 0.5 puts that unit into the last place of the sum, which
    // rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13U) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13U));
}
constexpr float f16_value(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13U));
  if (exponent == 0) {
    const float tiny = static_cast<float>(fraction) * 0x1.0p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(tiny));
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
}

template <std::uint16_t (*kToBits)(float), float (*kToValue)(std::uint16_t)>
class Half {
 public:
  Half() = default;
  constexpr Half(float value) : bits_(kToBits(value)) {}        // NOLINT: stores round by themselves
  constexpr operator float() const { return kToValue(bits_); }  // NOLINT

  constexpr Half& operator+=(float v) { return *this = Half(*this + v); }
  constexpr Half& operator-=(float v) { return *this = Half(*this - v); }
  constexpr Half& operator*=(float v) { return *this = Half(*this * v); }
  constexpr Half& operator/=(float v) { return *this = Half(*this / v); }

  static constexpr Half from_bits(std::uint16_t bits) {
    Half h;
    h.bits_ = bits;
    return h;
  }
  constexpr std::uint16_t bits() const { return bits_; }

 private:
  std::uint16_t bits_;
};

using BFloat16 = Half<bf16_bits, bf16_value>;  // 8 bits of exponent, 7 of fraction
using Float16 = Half<f16_bits, f16_value>;     // IEEE binary16

template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::kF16;
};

}  // namespace trireme

template <>
struct std::numeric_limits<trireme::BFloat16> : std::numeric_limits<float> {
  static constexpr trireme::BFloat16 max() { return trireme::BFloat16::from_bits(0x7F7F); }
  static constexpr trireme::BFloat16 lowest() { return trireme::BFloat16::from_bits(0xFF7F); }
  static constexpr trireme::BFloat16 epsilon() { return trireme::BFloat16::from_bits(0x3C00); }  // 2^-7
};
template <>
struct std::numeric_limits<trireme::Float16> : std::numeric_limits<float> {
  static constexpr trireme::Float16 max() { return trireme::Float16::from_bits(0x7BFF); }
  static constexpr trireme::Float16 lowest() { return trireme::Float16::from_bits(0xFBFF); }
  static constexpr trireme::Float16 epsilon() { return trireme::Float16::from_bits(0x1400); }  // 2^-10
};
