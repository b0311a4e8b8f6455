// batch_norm over [N, C, plane]: how blocks share the elements of a channel, and inference.
#pragma once

#include "trireme/kernel/cuda/norm/norm.cu"

typedef u32 I;

#pragma text kNormPlanesText
// Block (channel, part). total: elements of a channel; part: those of a block, a multiple of kPack.
struct Planes {
  i64 channels, plane, total, part, num_parts;
};
// use(load(offset), offset) for the packs of this thread, in order; four loads are in flight.
template <class Load, class Use>
__device__ __forceinline__ void each_pack(const Planes& s, i64 channel, i64 which, Load load, Use use) {
  const i64 begin = which * s.part, end = begin + s.part < s.total ? begin + s.part : s.total;
  const I plane = (I)s.plane;
  const i64 image = s.channels * s.plane, base = channel * s.plane, step = (i64)blockDim.x * kPack;
  const auto offset = [&](i64 e) {
    const I sample = (I)e / plane;
    return (i64)sample * image + base + ((I)e - sample * plane);
  };
  i64 e = begin + (i64)threadIdx.x * kPack;
  for (; e + 3 * step < end; e += 4 * step) {
    i64 at[4];
    decltype(load(e)) p[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) p[u] = load(at[u] = offset(e + u * step));
#pragma unroll
    for (int u = 0; u < 4; ++u) use(p[u], at[u]);
  }
  for (; e < end; e += step) use(load(offset(e)), offset(e));
}
// The second kernel goes backwards: what the first one read last is still in the cache.
__device__ __forceinline__ i64 backwards() { return (i64)gridDim.x - 1 - blockIdx.x; }
struct Sums {
  A a, b;
};
__device__ __forceinline__ void put_sums(A* parts, A a, A b) {
  a = block_sum(a);
  b = block_sum(b);
  if (threadIdx.x != 0) return;
  parts[2 * (i64)blockIdx.x] = a;
  parts[2 * (i64)blockIdx.x + 1] = b;
}
// num_parts is at most blockDim.x.
__device__ __forceinline__ Sums get_sums(const A* parts, i64 channel, i64 num_parts) {
  const i64 at = 2 * (channel * num_parts + threadIdx.x);
  const bool mine = threadIdx.x < num_parts;
  const A a = block_sum(mine ? parts[at] : (A)0), b = block_sum(mine ? parts[at + 1] : (A)0);
  return {a, b};
}

#pragma text kPlanesInferenceText
extern "C" __global__ void norm_given(const T* x, const S* scale, const B* bias, const M* means,
                                      const V* vars, Y* y, i64 n, i64 channels, i64 plane, double eps) {
  const bool aligned = is_aligned(x) && is_aligned(y);
  for (i64 k = first_index(); k * kPack < n; k += grid_step()) {
    const i64 i = k * kPack;
    const I c = (I)i / (I)plane % (I)channels;
    const A mean = widen(means[c]), shift = widen(bias[c]);
    const A gain = widen(scale[c]) / root_of(widen(vars[c]) + (A)eps);
    const Packed p = load_pack(x + i, aligned);
    Pack<Y, kPack> out;
#pragma unroll
    for (int v = 0; v < kPack; ++v) out.v[v] = narrow<Y>(normed(widen(p.v[v]) - mean, gain, shift));
    store_pack(y + i, out, aligned);
  }
}
