// Functions of one or two numbers for reference kernels, and what each counts in a cost function.
//
// A flop is one +, -, *, /, comparison, min, max, negation, square root or absolute value. Other functions
// count what their usual polynomial takes; the weights are here once, so that cost functions and the counting
// scalar of tests/op_counts agree. Kernels call these (not std::) so that the counting scalar is found.
#pragma once

#include <cmath>

namespace trireme::op::math {

inline constexpr int kTranscendentalFlops = 8;  // exp, log, sin, cos, tanh, erf, log1p, expm1
inline constexpr int kPowFlops = 16;            // a logarithm and an exponential

#define TRIREME_MATH_1(name) \
  template <typename T>      \
  T name(T v) {              \
    using std::name;         \
    return name(v);          \
  }
TRIREME_MATH_1(exp)
TRIREME_MATH_1(expm1)
TRIREME_MATH_1(log)
TRIREME_MATH_1(log1p)
TRIREME_MATH_1(sin)
TRIREME_MATH_1(cos)
TRIREME_MATH_1(tanh)
TRIREME_MATH_1(erf)
TRIREME_MATH_1(sqrt)
TRIREME_MATH_1(abs)
TRIREME_MATH_1(floor)
TRIREME_MATH_1(ceil)
TRIREME_MATH_1(rint)
#undef TRIREME_MATH_1

template <typename T>
T pow(T a, T b) {
  using std::pow;
  return pow(a, b);
}
template <typename T>
bool isnan(T v) {
  using std::isnan;
  return isnan(v);
}
template <typename T>
bool isfinite(T v) {
  using std::isfinite;
  return isfinite(v);
}

}  // namespace trireme::op::math
