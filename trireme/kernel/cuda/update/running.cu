// apply_running_mean and apply_running_variance. Scalars: momentum. extra: the count, in T; with it the
// variance becomes unbiased.
#pragma once

#include "trireme/kernel/cuda/update/number.cu"

struct Scalars {
  double v[5];
};
constexpr bool kUnbiased = true;

#pragma text kRunningText
struct Factors {
  A keep, gain;
};
__device__ Factors factors(const Scalars& s, double, i64, const A* extra) {
  double unbiased = 1;
  if (kUnbiased) {
    const double n = (double)load_acc(*reinterpret_cast<const T*>(extra));
    if (n >= 2 && n - n == 0) unbiased = n / (n - 1);
  }
  return {(A)(1 - s.v[0]), (A)__dmul_rn(s.v[0], unbiased)};
}
__device__ __forceinline__ void move(Number& w, Number*, Number g, const Factors& f) {
  w = Number(f.keep) * w + Number(f.gain) * g;
}
