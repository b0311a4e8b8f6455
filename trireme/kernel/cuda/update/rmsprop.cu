// apply_rmsprop. Scalars: weight_decay, eps, alpha, 1 - alpha, momentum.
#pragma once

#include "trireme/kernel/cuda/update/number.cu"

struct Scalars {
  double v[5];
};
constexpr bool kDecays = true, kHasMomentum = true, kCentered = true, kEpsInside = true, kRateInside = true;

#pragma text kRmspropText
struct Factors {
  A lr, decay, eps, alpha, rest, momentum;
};
__device__ Factors factors(const Scalars& s, double rate, i64, const A*) {
  return {(A)rate, (A)s.v[0], (A)s.v[1], (A)s.v[2], (A)s.v[3], (A)s.v[4]};
}
__device__ __forceinline__ void move(Number& w, Number* state, Number g, const Factors& f) {
  const Number lr = f.lr, rest = f.rest, eps = f.eps;
  if (kDecays) g = g + Number(f.decay) * w;
  Number square = Number(f.alpha) * state[0] + rest * g * g;
  state[0] = square;
  if (kCentered) {
    const Number mean = state[1] + rest * (g - state[1]);
    state[1] = mean;
    square = largest(square - mean * mean, Number((A)0));
  }
  Number along = g / (kEpsInside ? root(square + eps) : root(square) + eps);
  if (kHasMomentum) {
    if (kRateInside) along = along * lr;
    along = Number(f.momentum) * state[2] + along;
    state[2] = along;
  }
  w = kHasMomentum && kRateInside ? w - along : w - lr * along;
}
