// apply_momentum. Scalars: weight_decay, momentum, 1 - dampening.
#pragma once

#include "trireme/kernel/cuda/update/number.cu"

struct Scalars {
  double v[5];
};
constexpr bool kDecays = true, kDampens = true, kNesterov = true, kRateInside = true;

#pragma text kMomentumText
struct Factors {
  A lr, decay, momentum, undamped;
};
__device__ Factors factors(const Scalars& s, double rate, i64, const A*) {
  return {(A)rate, (A)s.v[0], (A)s.v[1], (A)s.v[2]};
}
__device__ __forceinline__ void move(Number& w, Number* state, Number g, const Factors& f) {
  const Number lr = f.lr, momentum = f.momentum;
  if (kDecays) g = g + Number(f.decay) * w;
  if (kRateInside) g = g * lr;
  const Number v = momentum * state[0] + (kDampens ? Number(f.undamped) * g : g);
  state[0] = v;
  const Number along = kNesterov ? g + momentum * v : v;
  w = kRateInside ? w - along : w - lr * along;
}
