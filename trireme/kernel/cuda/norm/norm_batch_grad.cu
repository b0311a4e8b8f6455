// The gradient of batch_norm over [N, C, plane].
#pragma once

#include "trireme/kernel/cuda/norm/norm_batch.cu"

#pragma text kPlanesGradText
// dy counts where y is positive; of a norm with a residual that is dresidual, which the first walk writes and
// the second one reads.
struct Channel {
  A mean, gain, shift;
};
struct Given {
  Packed x;
  Pack<D, kPack> dy;
  Pack<E, kPack> second;
  Pack<K, kPack> y;
};
__device__ __forceinline__ Channel channel_of(i64 c, const S* scale, const B* bias, const M* means,
                                              const V* vars, double eps) {
  Channel r;
  r.mean = widen(means[c]);
  r.gain = gain_of(widen(vars[c]), scale[c], eps);
  r.shift = kRelu && !kFromY ? widen(bias[c]) : (A)0;
  return r;
}
template <bool kAligned>
__device__ __forceinline__ void sums_of(const T* x, const K* y, const D* dy, const E* second, Z* dresidual,
                                        A* parts, const Planes& s, const Channel& of) {
  A sum = 0, dot = 0;
  each_pack(
      s, blockIdx.x / s.num_parts, blockIdx.x % s.num_parts,
      [&](i64 at) {
        Given p;
        p.x = load_pack<kAligned>(x + at);
        p.dy = load_pack<kAligned>(dy + at);
        if (kTwo) p.second = load_pack<kAligned>(second + at);
        if (kFromY) p.y = load_pack<kAligned>(y + at);
        return p;
      },
      [&](const Given& p, i64 at) {
        Pack<Z, kPack> out;
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const A off = widen(p.x.v[v]) - of.mean;
          A d = widen(p.dy.v[v]);
          if (kTwo) d += widen(p.second.v[v]);
          if (kFromY) {
            out.v[v] = narrow<Z>(widen(p.y.v[v]) > 0 ? d : (A)0);
            d = widen(out.v[v]);
          } else if (kRelu) {
            d = normed(off, of.gain, of.shift) > 0 ? d : (A)0;
          }
          sum += d;
          dot += d * off;
        }
        if (kFromY) store_pack<kAligned>(dresidual + at, out);
      });
  put_sums(parts, sum, dot);
}
extern "C" __global__ void norm_sums(const T* x, const S* scale, const B* bias, const M* means, const V* vars,
                                     const K* y, const D* dy, const E* second, Z* dresidual, A* parts,
                                     Planes s, double eps) {
  const Channel of = channel_of(blockIdx.x / s.num_parts, scale, bias, means, vars, eps);
  if (is_aligned(x) && is_aligned(y) && is_aligned(dy) && is_aligned(second) && is_aligned(dresidual))
    sums_of<true>(x, y, dy, second, dresidual, parts, s, of);
  else
    sums_of<false>(x, y, dy, second, dresidual, parts, s, of);
}

template <bool kMasked>
struct Seen {
  typedef D Type;
};
template <>
struct Seen<true> {
  typedef Z Type;
};
typedef Seen<kFromY != 0>::Type Q;
struct Pair {
  Packed x;
  Pack<Q, kPack> dy;
};
template <bool kAligned>
__device__ __forceinline__ void apply(const T* x, const Q* dy, X* dx, const Planes& s, const Channel& of,
                                      A sum, A dot) {
  each_pack(
      s, backwards() / s.num_parts, backwards() % s.num_parts,
      [&](i64 at) {
        Pair p;
        p.x = load_pack<kAligned>(x + at);
        p.dy = load_pack<kAligned>(dy + at);
        return p;
      },
      [&](const Pair& p, i64 at) {
        Pack<X, kPack> out;
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const A off = widen(p.x.v[v]) - of.mean;
          A d = widen(p.dy.v[v]);
          if (kRelu && !kFromY) d = normed(off, of.gain, of.shift) > 0 ? d : (A)0;
          out.v[v] = narrow<X>(fma_of(d, of.gain, -fma_of(off, dot, sum)));
        }
        store_pack<kAligned>(dx + at, out);
      });
}
extern "C" __global__ void norm_apply(const T* x, const A* parts, const S* scale, const B* bias,
                                      const M* means, const V* vars, const Q* dy, X* dx, G* dscale, H* dbias,
                                      Planes s, double eps) {
  const i64 channel = backwards() / s.num_parts;
  const Channel of = channel_of(channel, scale, bias, means, vars, eps);
  const A inv = (A)1 / root_of(widen(vars[channel]) + (A)eps);
  const Sums sums = get_sums(parts, channel, s.num_parts);
  const A all = sums.a, with = sums.b * inv;
  if (backwards() % s.num_parts == 0 && threadIdx.x == 0) {
    dscale[channel] = narrow<G>(with);
    dbias[channel] = narrow<H>(all);
  }
  const A sum = all * of.gain / (A)s.total, dot = with * of.gain / (A)s.total * inv;
  if (is_aligned(x) && is_aligned(dy) && is_aligned(dx))
    apply<true>(x, dy, dx, s, of, sum, dot);
  else
    apply<false>(x, dy, dx, s, of, sum, dot);
}
