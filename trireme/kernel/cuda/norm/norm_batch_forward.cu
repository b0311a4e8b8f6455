// batch_norm over [N, C, plane].
#pragma once

#include "trireme/kernel/cuda/norm/norm_batch.cu"

#pragma text kPlanesForwardText
template <bool kAligned>
__device__ __forceinline__ void sums_of(const T* x, A* parts, const Planes& s) {
  const i64 channel = blockIdx.x / s.num_parts;
  const A shift = widen(x[channel * s.plane]);
  A sum = 0, square = 0;
  each_pack(
      s, channel, blockIdx.x % s.num_parts, [&](i64 at) { return load_pack<kAligned>(x + at); },
      [&](const Packed& p, i64) {
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const A off = widen(p.v[v]) - shift;
          sum += off;
          square += off * off;
        }
      });
  put_sums(parts, sum, square);
}
extern "C" __global__ void norm_sums(const T* x, A* parts, Planes s) {
  if (is_aligned(x))
    sums_of<true>(x, parts, s);
  else
    sums_of<false>(x, parts, s);
}

struct Given {
  Packed x;
  Pack<R, kPack> residual;
};
template <bool kAligned>
__device__ __forceinline__ void apply(const T* x, const R* residual, Y* y, const Planes& s, A mean, A gain,
                                      A shift) {
  each_pack(
      s, backwards() / s.num_parts, backwards() % s.num_parts,
      [&](i64 at) {
        Given p;
        p.x = load_pack<kAligned>(x + at);
        if (kResidual) p.residual = load_pack<kAligned>(residual + at);
        return p;
      },
      [&](const Given& p, i64 at) {
        Pack<Y, kPack> out;
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          A value = normed(widen(p.x.v[v]) - mean, gain, shift);
          if (kResidual) value += widen(p.residual.v[v]);
          out.v[v] = narrow<Y>(kRelu ? relu_of(value) : value);
        }
        store_pack<kAligned>(y + at, out);
      });
}
extern "C" __global__ void norm_apply(const T* x, const A* parts, const S* scale, const B* bias,
                                      const R* residual, Y* y, M* means, V* vars, Planes s, double eps) {
  const i64 channel = backwards() / s.num_parts;
  A mean = 0, var = 0;
  if (s.total > 0) {
    const Sums sums = get_sums(parts, channel, s.num_parts);
    const A off = sums.a / (A)s.total;
    mean = widen(x[channel * s.plane]) + off;
    var = sums.b / (A)s.total - off * off;
    if (var < 0) var = 0;
  }
  if (backwards() % s.num_parts == 0 && threadIdx.x == 0) {
    means[channel] = narrow<M>(mean);
    vars[channel] = narrow<V>(var);
  }
  const A gain = gain_of(var, scale[channel], eps), shift = widen(bias[channel]);
  if (is_aligned(x) && is_aligned(residual) && is_aligned(y))
    apply<true>(x, residual, y, s, mean, gain, shift);
  else
    apply<false>(x, residual, y, s, mean, gain, shift);
}
