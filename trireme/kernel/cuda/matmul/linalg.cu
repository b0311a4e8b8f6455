// Inverse and determinant of small square matrices.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

typedef float T;
constexpr bool kInverse = true;

#pragma text kEliminateText
// The matrix, for the inverse with the identity on its right, lies in shared memory where it fits.
typedef acc_t<T> A;

// Row of the largest element at or below the diagonal of column k, the first of equals. A NaN is never
// larger, and nothing is larger than one on the diagonal. Called by warp 0.
__device__ int pivot_row(const A* m, int n, int width, int k) {
  A largest = -1;
  int best = n;
  for (int i = k + threadIdx.x; i < n; i += 32) {
    const A size = fabs(m[(i64)i * width + k]);
    if (size > largest) largest = size, best = i;
  }
  for (int step = 16; step > 0; step >>= 1) {
    const A size = __shfl_xor_sync(0xffffffffu, largest, step);
    const int row = __shfl_xor_sync(0xffffffffu, best, step);
    if (size > largest || (size == largest && row < best)) largest = size, best = row;
  }
  const A own = m[(i64)k * width + k];
  return own != own ? k : best;
}

extern "C" __global__ void eliminate(const T* __restrict__ x, T* __restrict__ y, A* scratch, i64 count, int n,
                                     int in_shared) {
  extern __shared__ double memory[];
  __shared__ int best;
  const int width = kInverse ? 2 * n : n, t = threadIdx.x, threads = blockDim.x;
  A* m = in_shared ? (A*)memory : scratch + (i64)blockIdx.x * n * width;
  for (i64 b = blockIdx.x; b < count; b += gridDim.x) {
    __syncthreads();  // the matrix before may still be read
    for (int e = t; e < n * width; e += threads) {
      const int i = e / width, j = e % width;
      m[e] = j < n ? (A)load_acc(x[b * n * n + (i64)i * n + j]) : A(j - n == i ? 1 : 0);
    }
    __syncthreads();
    A product = 1;
    for (int k = 0; k < n; ++k) {
      if (t < 32) {
        const int row = pivot_row(m, n, width, k);
        if (t == 0) best = row;
      }
      __syncthreads();
      A *own = m + (i64)k * width, *other = m + (i64)best * width;
      if (best != k) {
        product = -product;
        for (int j = t; j < width; j += threads) {
          const A v = own[j];
          own[j] = other[j];
          other[j] = v;
        }
        __syncthreads();
      }
      const A pivot = own[k];
      product *= pivot;
      if (!kInverse && pivot == 0) {
        product = 0;
        break;
      }
      if (kInverse) {
        const A factor = 1 / pivot;
        for (int j = k + 1 + t; j < width; j += threads) own[j] *= factor;
        __syncthreads();
      }
      const int columns = width - k - 1;
      for (int e = t; e < n * columns; e += threads) {
        const int i = e / columns, j = k + 1 + e % columns;
        if (kInverse ? i == k : i <= k) continue;
        const A f = kInverse ? m[(i64)i * width + k] : m[(i64)i * width + k] / pivot;
        m[(i64)i * width + j] -= f * own[j];
      }
      __syncthreads();
    }
    if (!kInverse) {
      if (t == 0) y[b] = store_acc<T>(product);
      continue;
    }
    for (int e = t; e < n * n; e += threads)
      y[b * n * n + e] = store_acc<T>(m[(i64)(e / n) * width + n + e % n]);
  }
}
