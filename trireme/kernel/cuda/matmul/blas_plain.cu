// Products that no library takes.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

typedef float T;
typedef float C;
constexpr bool kTransposeA = false, kTransposeB = false;

#pragma text kPlainProductText
// A block makes tiles of C, a thread one element of each; tiles of A and B go through shared memory.
typedef acc_t<T> A;
constexpr int kTile = 16;

extern "C" __global__ void plain_product(const T* a, const T* b, C* c, i64 m, i64 n, i64 k, i64 batch,
                                         i64 step_a, i64 step_b, i64 step_c, A alpha, A beta) {
  __shared__ A rows[kTile][kTile + 1], columns[kTile][kTile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const i64 j = (i64)blockIdx.x * kTile + x;
  for (i64 t = blockIdx.z; t < batch; t += gridDim.z) {
    const T *pa = a + t * step_a, *pb = b + t * step_b;
    for (i64 i0 = (i64)blockIdx.y * kTile; i0 < m; i0 += (i64)gridDim.y * kTile) {
      const i64 i = i0 + y;
      A sum = 0;
      for (i64 p0 = 0; p0 < k; p0 += kTile) {
        const i64 pr = p0 + x, pc = p0 + y;
        rows[y][x] = i < m && pr < k ? load_acc(pa[kTransposeA ? pr * m + i : i * k + pr]) : (A)0;
        columns[y][x] = j < n && pc < k ? load_acc(pb[kTransposeB ? j * k + pc : pc * n + j]) : (A)0;
        __syncthreads();
        for (int p = 0; p < kTile; ++p) sum += rows[y][p] * columns[p][x];
        __syncthreads();
      }
      if (i >= m || j >= n) continue;
      C* to = c + t * step_c + i * n + j;
      *to = store_acc<C>(beta == 0 ? alpha * sum : alpha * sum + beta * load_acc(*to));
    }
  }
}
