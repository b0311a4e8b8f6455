// apply_sgd. Scalars: weight_decay.
#pragma once

#include "trireme/kernel/cuda/update/number.cu"

struct Scalars {
  double v[5];
};
constexpr bool kDecays = true;

#pragma text kSgdText
struct Factors {
  A lr, decay;
};
__device__ Factors factors(const Scalars& s, double rate, i64, const A*) { return {(A)rate, (A)s.v[0]}; }
__device__ __forceinline__ void move(Number& w, Number*, Number g, const Factors& f) {
  w = w - Number(f.lr) * (kDecays ? g + Number(f.decay) * w : g);
}
