// Casts of many tensors in one launch.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

typedef float T;
typedef bf16 Y;
constexpr int EACH = 8192;
inline Y one(T v) { return from_f<bf16>(v); }

#pragma text kCastAllText
constexpr int V = 4, U = EACH / (256 * V);
struct Many {
  const T* from[64];
  Y* to[64];
  i64 n[64];
  u32 first[65];
};
// Blocks first[i]... before first[i + 1] have tensor i.
extern "C" __global__ void __launch_bounds__(256) cast_all(const __grid_constant__ Many many) {
  int i = 0;
#pragma unroll
  for (int half = 32; half > 0; half /= 2)
    if (many.first[i + half] <= blockIdx.x) i += half;
  const i64 start = (i64)(blockIdx.x - many.first[i]) * EACH, n = many.n[i] - start;
  const T* from = many.from[i] + start;
  Y* to = many.to[i] + start;
  if (n >= EACH && (u64)from % sizeof(Pack<T, V>) == 0 && (u64)to % sizeof(Pack<Y, V>) == 0) {
    Pack<T, V> x[U];
#pragma unroll
    for (int u = 0; u < U; ++u) x[u] = *(const Pack<T, V>*)(from + (u * 256 + threadIdx.x) * V);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      Pack<Y, V> y;
#pragma unroll
      for (int v = 0; v < V; ++v) y.v[v] = one(x[u].v[v]);
      *(Pack<Y, V>*)(to + (u * 256 + threadIdx.x) * V) = y;
    }
    return;
  }
  for (i64 k = threadIdx.x; k < EACH && k < n; k += 256) to[k] = one(from[k]);
}
