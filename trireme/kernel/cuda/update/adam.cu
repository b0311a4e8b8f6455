// apply_adam and apply_adamw. Scalars: beta1, beta2, eps, weight_decay (adam) or decay of the parameter
// (adamw), fixed_after.
#pragma once

#include "trireme/kernel/cuda/update/number.cu"

struct Scalars {
  double v[5];
};
constexpr bool kShrinks = true, kDecays = true, kDecayByRate = true, kAmsgrad = true, kEpsHat = true,
               kCorrects = true;

#pragma text kAdamText
struct Factors {
  A lr, rest1, keep2, rest2, root_bias, eps, decay, kept;
};
__device__ Factors factors(const Scalars& s, double rate, i64 t, const A*) {
  const double first = kCorrects ? 1 - pow(s.v[0], (double)t) : 1;
  const bool fixed = s.v[4] > 0 && (double)t > s.v[4];
  const double root2 = kCorrects ? sqrt(1 - pow(s.v[1], fixed ? s.v[4] : (double)t)) : 1;
  const double keep2 = fixed ? 1 : s.v[1];
  const double kept = __dadd_rn(1, -__dmul_rn(kDecayByRate ? rate : 1, s.v[3]));
  return {(A)(rate / first * (kEpsHat ? root2 : 1)),
          (A)(1 - s.v[0]),
          (A)keep2,
          (A)(1 - keep2),
          (A)root2,
          (A)s.v[2],
          (A)s.v[3],
          (A)kept};
}
__device__ __forceinline__ void move(Number& w, Number* state, Number g, const Factors& f) {
  if (kShrinks) w = w * Number(f.kept);  // by exactly 1 where nothing decays
  if (kDecays) g = g + Number(f.decay) * w;
  const Number moment1 = state[0] + Number(f.rest1) * (g - state[0]);
  Number moment2 = Number(f.keep2) * state[1] + Number(f.rest2) * g * g;
  state[0] = moment1;
  state[1] = moment2;
  if (kAmsgrad) state[2] = moment2 = largest(state[2], moment2);
  Number scale = root(moment2);
  if (!kEpsHat) scale = scale / Number(f.root_bias);
  w = w - Number(f.lr) * (moment1 / (scale + Number(f.eps)));
}
