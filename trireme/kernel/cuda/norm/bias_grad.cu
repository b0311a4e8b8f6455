// bias_grad: columns, planes or shifted, by the shape.
#pragma once

#include "trireme/kernel/cuda/norm/column_sums.cu"

typedef float T;
typedef Pack<u32, 4> Raw;  // a vector as it comes from memory: taken apart only when it is added
constexpr u32 INNER = 16, WIDTH = 4;

#pragma text kBiasGradText
constexpr int U = 4;
constexpr u32 BATCH = ROWS;
inline void add(A* sums, const Raw& raw) {
  const Pack<T, V> v = *(const Pack<T, V>*)&raw;
#pragma unroll
  for (int k = 0; k < V; ++k) sums[k] += (A)load_acc(v.v[k]);
}

// inner is 1.
extern "C" __global__ void __launch_bounds__(256, 4) columns(const T* x, A* parts, Y* y) {
  A sums[V] = {};
  if (channel() < CHANNELS) {
    const u32 end = end_row();
    u32 row = first_row();
    for (; row + (U - 1) * DOWN < end; row += U * DOWN) {
      const T* from = x + (u64)row * CHANNELS + channel();
      Raw rows[U];
#pragma unroll
      for (int t = 0; t < U; ++t) rows[t] = *(const Raw*)(from + (u64)t * DOWN * CHANNELS);
#pragma unroll
      for (int t = 0; t < U; ++t) add(sums, rows[t]);
    }
    for (; row < end; row += DOWN) add(sums, *(const Raw*)(x + (u64)row * CHANNELS + channel()));
  }
  put_columns(sums, parts, y);
}

inline void finish_block(const A* sums, A* parts, Y* y) {
  A sum = 0;
#pragma unroll
  for (int k = 0; k < V; ++k) sum += sums[k];
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  if (PARTS == 1)
    y[blockIdx.x] = finish(sum);
  else
    parts[(u64)blockIdx.y * CHANNELS + blockIdx.x] = sum;
}

// inner is WIDTH vectors: a block has one channel of its part of the batch.
extern "C" __global__ void __launch_bounds__(256, 4) planes(const T* x, A* parts, Y* y) {
  const u32 channel = blockIdx.x, begin = blockIdx.y * EACH;
  const u32 images = begin >= BATCH ? 0 : begin + EACH < BATCH ? EACH : BATCH - begin;
  const Raw* from = (const Raw*)x;
  A sums[V] = {};
  for (u32 first = threadIdx.x; first < images * WIDTH; first += U * 256) {
    Raw some[U] = {};
#pragma unroll
    for (int t = 0; t < U; ++t) {
      const u32 i = first + t * 256;
      if (i < images * WIDTH)
        some[t] = from[((u64)(begin + i / WIDTH) * CHANNELS + channel) * WIDTH + i % WIDTH];
    }
#pragma unroll
    for (int t = 0; t < U; ++t) add(sums, some[t]);  // zeros beyond the end
  }
  finish_block(sums, parts, y);
}

// inner is no whole number of vectors: those that a plane of INNER elements touches, WIDTH at most, without
// what belongs to its neighbours. Behind the last whole vector of x element by element.
extern "C" __global__ void __launch_bounds__(256, 4) shifted(const T* x, A* parts, Y* y) {
  const u32 channel = blockIdx.x, begin = blockIdx.y * EACH;
  const u32 images = begin >= BATCH ? 0 : begin + EACH < BATCH ? EACH : BATCH - begin;
  constexpr u64 WHOLE = (u64)BATCH * CHANNELS * INNER / V;
  A sums[V] = {};
  for (u32 first = threadIdx.x; first < images * WIDTH; first += U * 256) {
    Raw some[U] = {};
    u32 at[U];
#pragma unroll
    for (int t = 0; t < U; ++t) {
      const u32 i = first + t * 256;
      const u64 start = ((u64)(begin + i / WIDTH) * CHANNELS + channel) * INNER,
                vector = start / V + i % WIDTH;
      at[t] = (u32)(vector * V - start);  // wraps around where the vector begins before the plane
      if (i < images * WIDTH && vector < WHOLE && vector * V < start + INNER)
        some[t] = ((const Raw*)x)[vector];
      if (i < images * WIDTH && vector == WHOLE)
        for (u64 e = vector * V; e < start + INNER; ++e)
          if (e >= start) sums[0] += (A)load_acc(x[e]);
    }
#pragma unroll
    for (int t = 0; t < U; ++t) {
      const Pack<T, V> v = *(const Pack<T, V>*)&some[t];
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (at[t] + k < INNER) sums[k] += (A)load_acc(v.v[k]);
    }
  }
  finish_block(sums, parts, y);
}
