// What the bodies of elementwise ops rely on (expressions.cc).
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

#pragma text kExpressionText
// A product that feeds a sum would become one fused multiply-add: not what the ops one by one give. The
// intrinsics of times() are never merged.
inline float wrap(float v) { return v; }
inline double wrap(double v) { return v; }
inline u64 wrap(i64 v) { return (u64)v; }
inline u32 wrap(i32 v) { return (u32)v; }
inline u8 wrap(u8 v) { return v; }
inline float times(float a, float b) { return __fmul_rn(a, b); }
inline double times(double a, double b) { return __dmul_rn(a, b); }
inline i64 times(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
inline i32 times(i32 a, i32 b) { return (i32)((u32)a * (u32)b); }
inline u8 times(u8 a, u8 b) { return (u8)(a * b); }
inline float magnitude(float v) { return fabsf(v); }
inline double magnitude(double v) { return fabs(v); }
inline i64 magnitude(i64 v) { return v < 0 ? (i64)(0 - (u64)v) : v; }
inline i32 magnitude(i32 v) { return v < 0 ? (i32)(0 - (u32)v) : v; }
inline u8 magnitude(u8 v) { return v; }
// (1 + tanh(v / 2)) / 2, to some units in the last place: where it is small there is nothing to cancel.
inline float logistic_of(float v) { return __fdividef(1.0f, 1.0f + __expf(-v)); }
inline double logistic_of(double v) { return 1 / (1 + exp(-v)); }
// Towards zero, with the last bit set where that is not exact: rounding to 16 bits afterwards rounds once.
inline float to_odd(double v) {
  const float f = (float)v;
  const double back = (double)f;
  if (v != v || back == v) return f;
  u32 bits = __float_as_uint(f);
  if (fabs(back) > fabs(v)) --bits;
  return __uint_as_float(bits | 1u);
}
