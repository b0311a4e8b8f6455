// Sums over windows along a dimension.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

#define STREAM 1
typedef float In;
typedef float Out;
constexpr int kBefore = 2, kAfter = 2;
constexpr bool kNorm = true, kThreeQuarters = true;

#pragma text kWindowText
// STREAM: a thread walks `chunk` elements along n and keeps the window in registers, so that each element is
// read once. Otherwise each element of y reads its own window: for long windows, and where n is the fastest
// dimension.
typedef acc_t<In> A;
struct Sizes {
  i64 outer, n, inner, chunk;
};

__device__ A part(A v) { return kNorm ? v * v : v; }

// s^-0.75; the usual power without a logarithm. In f32 good to a few units of rounding; 0 for inf.
__device__ double three_quarters(double s) { return 1 / (sqrt(s) * sqrt(sqrt(s))); }
__device__ float three_quarters(float s) {
  const float r = rsqrtf(s);
  return r * sqrtf(r);
}

// What becomes of an element and the sum over its window.
__device__ Out result(A v, A sum, double k, double factor, double beta) {
  if (!kNorm) return store_acc<Out>(sum);
  const A s = (A)k + (A)factor * sum;
  return store_acc<Out>(kThreeQuarters ? v * three_quarters(s) : v / pow(s, (A)beta));
}

#if STREAM
extern "C" __global__ void window_sum(const In* __restrict__ x, Out* __restrict__ y, Sizes s, i64, i64,
                                      double k, double factor, double beta) {
  const i64 at = first_index(), chunks = (s.n + s.chunk - 1) / s.chunk;
  if (at >= s.outer * chunks * s.inner) return;
  const i64 first = at / s.inner % chunks * s.chunk, last = min(first + s.chunk, s.n);
  const i64 row = at / s.inner / chunks * s.n * s.inner + at % s.inner;
  A window[kBefore + kAfter + 1];
#pragma unroll
  for (int j = 0; j < kBefore + kAfter; ++j) {
    const i64 i = first - kBefore + j;
    window[j + 1] = i >= 0 && i < s.n ? (A)load_acc(x[row + i * s.inner]) : A(0);
  }
#pragma unroll 8
  for (i64 i = first; i < last; ++i) {
#pragma unroll
    for (int j = 0; j < kBefore + kAfter; ++j) window[j] = window[j + 1];
    window[kBefore + kAfter] = i + kAfter < s.n ? (A)load_acc(x[row + (i + kAfter) * s.inner]) : A(0);
    A sum = 0;
#pragma unroll
    for (int j = 0; j <= kBefore + kAfter; ++j) sum += part(window[j]);
    y[row + i * s.inner] = result(window[kBefore], sum, k, factor, beta);
  }
}
#else
extern "C" __global__ void window_sum(const In* __restrict__ x, Out* __restrict__ y, Sizes s, i64 before,
                                      i64 after, double k, double factor, double beta) {
  for (i64 at = first_index(); at < s.outer * s.n * s.inner; at += grid_step()) {
    const i64 i = at / s.inner % s.n;
    const i64 begin = i < before ? 0 : i - before, end = s.n - i <= after ? s.n : i + after + 1;
    const In* row = x + at - i * s.inner;
    A sum = 0;
    for (i64 j = begin; j < end; ++j) sum += part(load_acc(row[j * s.inner]));
    y[at] = result(load_acc(x[at]), sum, k, factor, beta);
  }
}
#endif
