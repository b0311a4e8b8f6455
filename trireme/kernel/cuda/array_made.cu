// Bytes that come with a launch, and running sums.
#pragma once

#include "trireme/kernel/cuda/expressions.cu"

typedef float T;
typedef float A;
constexpr bool kReverse = false;

#pragma text kPutText
extern "C" __global__ void put(u8* y, Index8 from, int n) {
  const int i = threadIdx.x;
  if (i < n) y[i] = (u8)(from.v[i / 8] >> i % 8 * 8);
}

#pragma text kPlusText
inline A plus(A a, A b) { return (A)(wrap(a) + wrap(b)); }

#pragma text kScanRowsText
// One block per row: sums within warps by doubling, then of the warps before, then of the tiles before.
extern "C" __global__ void __launch_bounds__(256) scan_rows(const T* x, T* y, i64 size, i64 inner) {
  __shared__ A sums[8];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x += blockIdx.x * size;
  y += blockIdx.x * size;
  A carry = 0;
  for (i64 base = 0; base < size; base += 256) {
    const i64 k = base + threadIdx.x, i = kReverse ? size - 1 - k : k;
    A v = k < size ? load_acc(x[i]) : (A)0;
    for (int d = 1; d < 32; d *= 2) {
      const A before = (A)__shfl_up_sync(0xffffffffu, v, d);
      if (lane >= d) v = plus(before, v);
    }
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    A before = carry;
    for (int w = 0; w < 8; ++w) {
      if (w < warp) before = plus(before, sums[w]);
      carry = plus(carry, sums[w]);
    }
    if (k < size) y[i] = store_acc<T>(plus(before, v));
    __syncthreads();
  }
}

#pragma text kScanColumnsText
// One thread per column, in index order.
extern "C" __global__ void __launch_bounds__(256) scan_columns(const T* x, T* y, i64 size, i64 inner, i64 n) {
  for (i64 c = first_index(); c < n; c += grid_step()) {
    const i64 at = c / inner * inner * size + c % inner;
    A total = 0;
    for (i64 k = 0; k < size; ++k) {
      const i64 i = at + (kReverse ? size - 1 - k : k) * inner;
      total = plus(total, load_acc(x[i]));
      y[i] = store_acc<T>(total);
    }
  }
}
