// softmax and log_softmax along the last dimension, or along another one.
#pragma once

#include "trireme/kernel/cuda/norm/rows.cu"

constexpr bool kLog = false;

#pragma text kSoftmaxText
__device__ __forceinline__ T result(A v, A top, A total) {
  return store_acc<T>(kLog ? v - top - total : exp_of(v - top) / total);
}

#pragma text kSoftmaxRowsText
template <bool kAligned>
__device__ __forceinline__ void softmax_row(const T* x, T* y, i64 n) {
  const Row<T, kAligned> row(x, n);
  A top = -inf(), total = 0;
  row.scan([&](const Packed& p, int) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) top = Max::of(top, load_acc(p.v[v]));
  });
  top = row_max(top);
  row.each([&](const Packed& p, int) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) total += exp_of(load_acc(p.v[v]) - top);
  });
  total = row_sum(total);
  if (kLog) total = log_of(total);
  row.each([&](const Packed& p, int i) {
    Packed out;
#pragma unroll
    for (int v = 0; v < kPack; ++v) out.v[v] = result(load_acc(p.v[v]), top, total);
    store_pack<kAligned>(y + i, out);
  });
}

extern "C" __global__ void softmax_rows(const T* x, T* y, i64 rows, i64 n) {
  const i64 r = row_index();
  if (r >= rows) return;
  if (is_aligned(x) && is_aligned(y))
    softmax_row<true>(x + r * n, y + r * n, n);
  else
    softmax_row<false>(x + r * n, y + r * n, n);
}

#pragma text kSoftmaxColumnsText
extern "C" __global__ void softmax_columns(const T* x, T* y, i64 outer, i64 n, i64 inner) {
  for (i64 c = first_index(); c < outer * inner; c += grid_step()) {
    const i64 base = c / inner * n * inner + c % inner;
    A top = -inf(), total = 0;
    for (i64 i = 0; i < n; ++i) top = Max::of(top, load_acc(x[base + i * inner]));
    for (i64 i = 0; i < n; ++i) total += exp_of(load_acc(x[base + i * inner]) - top);
    if (kLog) total = log_of(total);
    for (i64 i = 0; i < n; ++i) y[base + i * inner] = result(load_acc(x[base + i * inner]), top, total);
  }
}
