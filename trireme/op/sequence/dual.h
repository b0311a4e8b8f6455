// Dual numbers: a value and its derivative along one direction, for second-order gradients.
//
// Let f be an op, g(x, w) its gradient function (g = J(x)^T w). The gradient of <u, g(x, w)> is, with respect
// to x, the derivative of g along u (Hessians are symmetric) and, with respect to w, the derivative J(x) u of
// f along u. So the kernel of g run on x + u eps yields both: no second backward pass has to be derived by
// hand.
#pragma once

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/math.h"

namespace trireme::op::detail {

template <typename A>
struct Dual {
  A value, tangent;

  Dual() = default;
  Dual(A v, A t = A(0)) : value(v), tangent(t) {}  // NOLINT: constants mix in

  friend Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.tangent + b.tangent}; }
  friend Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.tangent - b.tangent}; }
  friend Dual operator-(Dual a) { return {-a.value, -a.tangent}; }
  friend Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, a.value * b.tangent + a.tangent * b.value};
  }
  friend Dual operator/(Dual a, Dual b) {
    const A quotient = a.value / b.value;
    return {quotient, (a.tangent - quotient * b.tangent) / b.value};
  }
  Dual& operator+=(Dual o) { return *this = *this + o; }
  friend bool operator>(Dual a, Dual b) { return a.value > b.value; }
  friend Dual exp(Dual a) {
    const A e = math::exp(a.value);
    return {e, e * a.tangent};
  }
  friend Dual tanh(Dual a) {
    const A t = math::tanh(a.value);
    return {t, (A(1) - t * t) * a.tangent};
  }
};

template <typename N>
struct PlainOf {
  using type = N;
};
template <typename A>
struct PlainOf<Dual<A>> {
  using type = A;
};
template <typename N>
using Plain = typename PlainOf<N>::type;
template <typename N>
inline constexpr bool kIsDual = !std::is_same_v<N, Plain<N>>;

template <typename A>
A value_of(A v) {
  return v;
}
template <typename A>
A value_of(Dual<A> v) {
  return v.value;
}
template <typename N>
N sigmoid(N v) {
  return N(1) / (N(1) + math::exp(-v));
}

// Operations of a kernel that runs on plain or on dual numbers.
struct Tally {
  double add = 0;  // additions, subtractions, negations
  double mul = 0, div = 0, compare = 0, exp = 0, tanh = 0;
  double pairs = 0;  // of a multiplication and an addition, which are among the above

  double flops(bool dual) const {
    constexpr double kFunction = math::kTranscendentalFlops;
    if (!dual) return add + mul + div + compare + kFunction * (exp + tanh);
    return 2 * add + 4 * mul + 4 * div + compare + (kFunction + 1) * exp + (kFunction + 3) * tanh;
  }
  // A multiply-add is one unit of work (three of them with a tangent).
  double work(bool dual) const { return flops(dual) - (dual ? 3 : 1) * pairs; }
  static Tally multiply_adds(double n) { return {.add = n, .mul = n, .pairs = n}; }
  friend Tally operator+(Tally a, const Tally& b) {
    return {a.add + b.add, a.mul + b.mul,   a.div + b.div,    a.compare + b.compare,
            a.exp + b.exp, a.tanh + b.tanh, a.pairs + b.pairs};
  }
  friend Tally operator*(double n, const Tally& t) {
    return {n * t.add, n * t.mul, n * t.div, n * t.compare, n * t.exp, n * t.tanh, n * t.pairs};
  }
};
inline constexpr Tally kSigmoidTally{.add = 2, .div = 1, .exp = 1};

}  // namespace trireme::op::detail
