// apply_adagrad. Scalars: weight_decay, eps, lr_decay.
#pragma once

#include "trireme/kernel/cuda/update/number.cu"

struct Scalars {
  double v[5];
};
constexpr bool kDecays = true, kEpsInside = true;

#pragma text kAdagradText
struct Factors {
  A lr, decay, eps;
};
__device__ Factors factors(const Scalars& s, double rate, i64 t, const A*) {
  return {(A)(rate / __dadd_rn(1, __dmul_rn((double)(t - 1), s.v[2]))), (A)s.v[0], (A)s.v[1]};
}
__device__ __forceinline__ void move(Number& w, Number* state, Number g, const Factors& f) {
  if (kDecays) g = g + Number(f.decay) * w;
  const Number sum = state[0] + g * g, eps = f.eps;
  state[0] = sum;
  w = w - Number(f.lr) * (g / (kEpsInside ? root(sum + eps) : root(sum) + eps));
}
