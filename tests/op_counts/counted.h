// Counted: a double that counts the operations done with it. Reference kernels compiled with
// TRIREME_F64=Counted (cmake/op_counts.cmake) run on f64 tensors as always and leave the number of their
// flops in Counted::flops.
//
// Conversions, copies and loads count nothing; weights of functions are those of op/detail/math.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "trireme/op/detail/math.h"
#include "trireme/tensor/dtype.h"

namespace trireme::op::testing {

class Counted {
 public:
  static inline std::int64_t flops = 0;  // one thread counts at a time

  Counted() = default;
  template <typename N>
  requires std::is_arithmetic_v<N>
  constexpr Counted(N v) : value_(static_cast<double>(v)) {}  // NOLINT: constants mix in as with double
  template <typename N>
  requires std::is_arithmetic_v<N>
  explicit constexpr operator N() const { return static_cast<N>(value_); }
  double value() const { return value_; }

  friend Counted operator+(Counted a, Counted b) { return counted(a.value_ + b.value_); }
  friend Counted operator-(Counted a, Counted b) { return counted(a.value_ - b.value_); }
  friend Counted operator*(Counted a, Counted b) { return counted(a.value_ * b.value_); }
  friend Counted operator/(Counted a, Counted b) { return counted(a.value_ / b.value_); }
  friend Counted operator-(Counted a) { return counted(-a.value_); }
  Counted& operator+=(Counted o) { return *this = *this + o; }
  Counted& operator-=(Counted o) { return *this = *this - o; }
  Counted& operator*=(Counted o) { return *this = *this * o; }
  Counted& operator/=(Counted o) { return *this = *this / o; }
  friend bool operator<(Counted a, Counted b) { return compared(a.value_ < b.value_); }
  friend bool operator>(Counted a, Counted b) { return compared(a.value_ > b.value_); }
  friend bool operator<=(Counted a, Counted b) { return compared(a.value_ <= b.value_); }
  friend bool operator>=(Counted a, Counted b) { return compared(a.value_ >= b.value_); }
  friend bool operator==(Counted a, Counted b) { return compared(a.value_ == b.value_); }
  friend bool operator!=(Counted a, Counted b) { return compared(a.value_ != b.value_); }

  friend Counted sqrt(Counted a) { return counted(std::sqrt(a.value_)); }
  friend Counted abs(Counted a) { return counted(std::abs(a.value_)); }
  friend Counted floor(Counted a) { return counted(std::floor(a.value_)); }
  friend Counted ceil(Counted a) { return counted(std::ceil(a.value_)); }
  friend Counted rint(Counted a) { return counted(std::rint(a.value_)); }
  friend Counted exp(Counted a) { return counted(std::exp(a.value_), math::kTranscendentalFlops); }
  friend Counted expm1(Counted a) { return counted(std::expm1(a.value_), math::kTranscendentalFlops); }
  friend Counted log(Counted a) { return counted(std::log(a.value_), math::kTranscendentalFlops); }
  friend Counted log1p(Counted a) { return counted(std::log1p(a.value_), math::kTranscendentalFlops); }
  friend Counted sin(Counted a) { return counted(std::sin(a.value_), math::kTranscendentalFlops); }
  friend Counted cos(Counted a) { return counted(std::cos(a.value_), math::kTranscendentalFlops); }
  friend Counted tanh(Counted a) { return counted(std::tanh(a.value_), math::kTranscendentalFlops); }
  friend Counted erf(Counted a) { return counted(std::erf(a.value_), math::kTranscendentalFlops); }
  friend Counted pow(Counted a, Counted b) { return counted(std::pow(a.value_, b.value_), math::kPowFlops); }
  // Guards against special values are not arithmetic.
  friend bool isnan(Counted a) { return std::isnan(a.value_); }
  friend bool isfinite(Counted a) { return std::isfinite(a.value_); }

 private:
  static Counted counted(double v, int weight = 1) {
    flops += weight;
    return Counted(v);
  }
  static bool compared(bool b) {
    ++flops;
    return b;
  }
  double value_;
};
static_assert(sizeof(Counted) == sizeof(double));

}  // namespace trireme::op::testing

template <>
struct trireme::DTypeOf<trireme::op::testing::Counted> {
  static constexpr DType value = DType::kF64;
};

template <>
struct std::numeric_limits<trireme::op::testing::Counted> : std::numeric_limits<double> {};
