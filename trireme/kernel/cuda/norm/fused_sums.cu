// The walk over the rows of a fused group, with the sums of the columns of its first result.
#pragma once

#include "trireme/kernel/cuda/norm/column_sums.cu"

// What fused_sums.cc writes of a group: the operands, those that stay the same down a column, the others of
// one row, and the results of one row.
struct Pointers {
  const float* p0;
  const float* p1;
  float* q0;
};
struct Fixed {
  float x1[V];
  inline void load(const Pointers& a) {
    for (int k = 0; k < V; ++k) x1[k] = a.p1[channel() + k];
  }
};
struct Given {
  Pack<float, V> x0;
  inline void load(const Pointers& a, u64 at, u32 row) { x0 = *(const Pack<float, V>*)(a.p0 + at); }
};
struct Results {
  Pack<float, V> y0;
  inline A compute(const Given& x, const Fixed& fixed, int k) {
    y0.v[k] = x.x0.v[k] + fixed.x1[k];
    return y0.v[k];
  }
  inline void store(const Pointers& a, u64 at) const { *(Pack<float, V>*)(a.q0 + at) = y0; }
};
constexpr int kUnroll = 4;

#pragma text kFusedSumsText
// U rows of a thread, DOWN apart, all loads before the first use.
template <int U>
inline void rows(const Pointers& a, const Fixed& fixed, u32 row, A* sums) {
  Given x[U];
#pragma unroll
  for (int u = 0; u < U; ++u) x[u].load(a, (u64)(row + u * DOWN) * CHANNELS + channel(), row + u * DOWN);
#pragma unroll
  for (int u = 0; u < U; ++u) {
    Results y;
#pragma unroll
    for (int k = 0; k < V; ++k) sums[k] += y.compute(x[u], fixed, k);
    y.store(a, (u64)(row + u * DOWN) * CHANNELS + channel());
  }
}
extern "C" __global__ void __launch_bounds__(256, 4) fused_columns(const Pointers a, A* parts, Y* y) {
  A sums[V] = {};
  if (channel() < CHANNELS) {
    constexpr int U = kUnroll;
    Fixed fixed;
    fixed.load(a);
    const u32 end = end_row();
    u32 row = first_row();
    for (; row + (U - 1) * DOWN < end; row += U * DOWN) rows<U>(a, fixed, row, sums);
    for (; row < end; row += DOWN) rows<1>(a, fixed, row, sums);
  }
  put_columns(sums, parts, y);
}
