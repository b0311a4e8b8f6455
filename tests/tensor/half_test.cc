#include "trireme/tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "trireme/base/rng.h"

namespace trireme {
namespace {

// The value that the bits of a binary format stand for, from its definition.
double defined_value(std::uint16_t bits, int fraction_bits, int bias) {
  const int exponent_mask = (1 << (15 - fraction_bits)) - 1;
  const int exponent = bits >> fraction_bits & exponent_mask, fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == exponent_mask) return fraction != 0 ? std::nan("") : sign * INFINITY;
  const double scaled = exponent == 0
                            ? std::ldexp(fraction, 1 - bias - fraction_bits)
                            : std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  return sign * scaled;
}

template <typename T>
void expect_every_pattern(int fraction_bits, int bias) {
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = T::from_bits(bits);
    const double expected = defined_value(bits, fraction_bits, bias);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_TRUE(std::isnan(static_cast<float>(T(value)))) << i;
    } else {
      ASSERT_EQ(value, expected) << i;
      ASSERT_EQ(T(value).bits(), bits) << i;
    }
  }
}

TEST(Half, EveryPatternHasTheValueOfItsDefinitionAndComesBack) {
  expect_every_pattern<BFloat16>(7, 127);
  expect_every_pattern<Float16>(10, 15);
}

// The magnitudes of the patterns 0..largest ascend, so the nearest one is one of two neighbours.
template <typename T>
void expect_nearest(float x, int largest) {
  const double target = std::abs(static_cast<double>(x));
  int low = 0, high = largest;  // value(low) <= target
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (static_cast<double>(static_cast<float>(T::from_bits(static_cast<std::uint16_t>(middle)))) <= target) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const auto value = [](int i) {
    return static_cast<double>(static_cast<float>(T::from_bits(static_cast<std::uint16_t>(i))));
  };
  int best = low;
  if (low < largest) {
    const double below = target - value(low), above = value(low + 1) - target;
    if (above < below || (above == below && (low & 1) != 0)) best = low + 1;
  }
  const int sign = std::signbit(x) ? 0x8000 : 0;
  ASSERT_EQ(T(x).bits(), best | sign) << x;
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  Philox rng(1);
  for (int i = 0; i < 200000; ++i) {
    const float u = rng.next_uniform() * 2 - 1;
    const float x = std::ldexp(u, static_cast<int>(rng.next_uniform() * 38) - 25);
    expect_nearest<BFloat16>(x, 0x7F7F);
    if (std::abs(x) < 65504) expect_nearest<Float16>(x, 0x7BFF);
  }
  for (int i = 0; i < 0x7BFF; ++i) {  // exact middles
    const float a = Float16::from_bits(static_cast<std::uint16_t>(i)),
                b = Float16::from_bits(static_cast<std::uint16_t>(i + 1));
    expect_nearest<Float16>((a + b) / 2, 0x7BFF);
  }
}

TEST(Half, OverflowIsInfinityAndTinyIsZero) {
  EXPECT_EQ(Float16(65519.0F).bits(), 0x7BFF);
  EXPECT_EQ(Float16(65520.0F).bits(), 0x7C00);
  EXPECT_EQ(Float16(-1e30F).bits(), 0xFC00);
  EXPECT_EQ(Float16(0x1.0p-25F).bits(), 0);
  EXPECT_EQ(Float16(0x1.8p-25F).bits(), 1);
  EXPECT_EQ(BFloat16(3.4e38F).bits(), 0x7F80);
  EXPECT_EQ(BFloat16(-0.0F).bits(), 0x8000);
}

TEST(Half, ComputesInFloat) {
  Float16 x(2048.0F);
  const float sum = x + Float16(1.0F);
  EXPECT_EQ(sum, 2049.0F);  // not a value of f16
  x += 1.0F;
  EXPECT_EQ(static_cast<float>(x), 2048.0F);
}

}  // namespace
}  // namespace trireme
