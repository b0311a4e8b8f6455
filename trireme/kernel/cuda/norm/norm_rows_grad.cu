// The gradient of batch_norm over [rows, channels].
#pragma once

#include "trireme/kernel/cuda/norm/norm_rows.cu"

#pragma text kNormGradText
// table: gain, mean(dy) gain, mean(dy xh) inv gain per channel, so that dx = dy gain - table 1 - (x - mean)
// table 2. dy: where y is positive; of a norm with a residual that is dresidual, which the first walk writes
// and the second one reads.
constexpr int kAhead = kFromY ? 1 : 2;
struct Given {
  Packed x;
  Pack<D, kPack> dy;
  Pack<E, kPack> second;
  Pack<K, kPack> y;
};
template <bool kAligned>
__device__ __forceinline__ void add_rows(const T* x, const S* scale, const B* bias, const M* means,
                                         const V* vars, const K* y, const D* dy, const E* second,
                                         Z* dresidual, const Columns& s, double eps, A* sum, A* dot) {
  const i64 c = channel_index();
  A mean[kPack], gain[kPack], shift[kPack];
  load_values(mean, means + c);
  if (kRelu && !kFromY) {
    load_values(shift, bias + c);
#pragma unroll
    for (int v = 0; v < kPack; ++v) gain[v] = gain_of(widen(vars[c + v]), scale[c + v], eps);
  }
  each_row<kAhead>(
      s, backwards(),
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
          const A off = widen(p.x.v[v]) - mean[v];
          A d = widen(p.dy.v[v]);
          if (kTwo) d += widen(p.second.v[v]);
          if (kFromY) {
            out.v[v] = narrow<Z>(widen(p.y.v[v]) > 0 ? d : (A)0);
            d = widen(out.v[v]);
          } else if (kRelu) {
            d = normed(off, gain[v], shift[v]) > 0 ? d : (A)0;
          }
          sum[v] += d;
          dot[v] += d * off;
        }
        if (kFromY) store_pack<kAligned>(dresidual + at, out);
      });
}
extern "C" __global__ void __launch_bounds__(256)
    column_sums(const T* x, const S* scale, const B* bias, const M* means, const V* vars, const K* y,
                const D* dy, const E* second, Z* dresidual, A* parts, Columns s, double eps) {
  A sum[kPack], dot[kPack];
#pragma unroll
  for (int v = 0; v < kPack; ++v) sum[v] = dot[v] = 0;
  if (channel_index() < s.channels) {
    if (is_aligned(x) && is_aligned(dy) && is_aligned(second) && is_aligned(y) && is_aligned(dresidual))
      add_rows<true>(x, scale, bias, means, vars, y, dy, second, dresidual, s, eps, sum, dot);
    else
      add_rows<false>(x, scale, bias, means, vars, y, dy, second, dresidual, s, eps, sum, dot);
  }
  put_sums(parts, s, sum, dot);
}

extern "C" __global__ void column_stats(const A* parts, const S* scale, const V* vars, A* table, G* dscale,
                                        H* dbias, Columns s, double eps) {
  const i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
  A sum, dot;
  if (!get_sums(parts, s, c, sum, dot)) return;
  const A inv = (A)1 / root_of(widen(vars[c]) + (A)eps), gain = gain_of(widen(vars[c]), scale[c], eps);
  dot *= inv;
  dscale[c] = narrow<G>(dot);
  dbias[c] = narrow<H>(sum);
  table[c] = gain;
  table[s.channels + c] = sum * gain / (A)s.rows;
  table[2 * s.channels + c] = dot * gain / (A)s.rows * inv;
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
__device__ __forceinline__ void apply(const T* x, const A* table, const B* bias, const M* means, const Q* dy,
                                      X* dx, const Columns& s) {
  const i64 c = channel_index();
  A shift[kPack], mean[kPack], gain[kPack], sum[kPack], dot[kPack];
  if (kRelu && !kFromY) load_values(shift, bias + c);
  load_values(mean, means + c);
  load_values(gain, table + c);
  load_values(sum, table + s.channels + c);
  load_values(dot, table + 2 * s.channels + c);
  each_row<1>(
      s, blockIdx.y,
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
          const A off = widen(p.x.v[v]) - mean[v];
          A d = widen(p.dy.v[v]);
          if (kRelu && !kFromY) d = normed(off, gain[v], shift[v]) > 0 ? d : (A)0;
          out.v[v] = narrow<X>(fma_of(d, gain[v], -fma_of(off, dot[v], sum[v])));
        }
        store_pack<kAligned>(dx + at, out);
      });
}
extern "C" __global__ void __launch_bounds__(256)
    column_apply(const T* x, const A* table, const B* bias, const M* means, const Q* dy, X* dx, Columns s) {
  if (channel_index() >= s.channels) return;
  if (is_aligned(x) && is_aligned(dy) && is_aligned(dx))
    apply<true>(x, table, bias, means, dy, dx, s);
  else
    apply<false>(x, table, bias, means, dy, dx, s);
}
