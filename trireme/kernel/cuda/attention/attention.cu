// Rows of scores, and 16-bit operands widened and narrowed.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

typedef float T;
typedef float A;

#pragma text kAttentionText
// T: the operands, A: what is computed in. A block per row of [heads, queries, keys]; a thread meets its own
// elements only, so both kernels work in place. Keys behind `seen` get 0.
__device__ __forceinline__ float exp_of(float v) { return expf(v); }
__device__ __forceinline__ double exp_of(double v) { return exp(v); }

// `begin`: of the first query among all of them; null: they are all.
__device__ __forceinline__ i64 seen_keys(i64 row, i64 queries, i64 keys, bool causal, const i64* begin) {
  if (!causal) return keys;
  const i64 seen = row % queries + 1 + (begin != nullptr ? *begin : 0);
  return seen < 0 ? 0 : seen < keys ? seen : keys;
}

// Scores become probabilities, except for the division by the returned total.
__device__ __forceinline__ A exponentials(A* s, i64 n, A infinity) {
  A top = -infinity;
  for (i64 j = threadIdx.x; j < n; j += blockDim.x) top = s[j] > top ? s[j] : top;
  top = block_max(top);
  A total = 0;
  for (i64 j = threadIdx.x; j < n; j += blockDim.x) total += s[j] = exp_of(s[j] - top);
  return block_sum(total);
}

extern "C" __global__ void softmax_rows(A* scores, i64 queries, i64 keys, bool causal, const i64* begin,
                                        A infinity) {
  A* s = scores + (i64)blockIdx.x * keys;
  const i64 n = seen_keys(blockIdx.x, queries, keys, causal, begin);
  const A total = exponentials(s, n, infinity);
  for (i64 j = threadIdx.x; j < keys; j += blockDim.x) s[j] = j < n ? s[j] / total : (A)0;
}

// Scores become probabilities, their gradients those of the scores before scaling.
extern "C" __global__ void softmax_grad_rows(A* scores, A* grads, i64 queries, i64 keys, bool causal,
                                             const i64* begin, A scale, A infinity) {
  A *s = scores + (i64)blockIdx.x * keys, *d = grads + (i64)blockIdx.x * keys;
  const i64 n = seen_keys(blockIdx.x, queries, keys, causal, begin);
  const A total = exponentials(s, n, infinity);
  A mean = 0;
  for (i64 j = threadIdx.x; j < keys; j += blockDim.x) {
    s[j] = j < n ? s[j] / total : (A)0;
    if (j < n) mean += s[j] * d[j];
  }
  mean = block_sum(mean);
  for (i64 j = threadIdx.x; j < keys; j += blockDim.x) d[j] = j < n ? s[j] * (d[j] - mean) * scale : (A)0;
}

extern "C" __global__ void widen(const T* x, A* y, i64 n) {
  for (i64 i = first_index(); i < n; i += grid_step()) y[i] = load_acc(x[i]);
}
extern "C" __global__ void narrow(const A* x, T* y, i64 n) {
  for (i64 i = first_index(); i < n; i += grid_step()) y[i] = store_acc<T>(x[i]);
}
