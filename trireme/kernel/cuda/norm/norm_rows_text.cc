#include "trireme/kernel/cuda/norm/norm_rows_text.h"

namespace trireme::kernel::cuda {

const char* const kNormColumnsText = R"cuda(
struct Columns { i64 rows, channels, part, num_parts; };
constexpr int kDown = 256 / kAcross;  // threads y; kAcross: threads x
__device__ __forceinline__ i64 channel_index() { return ((i64)blockIdx.x * kAcross + threadIdx.x) * kPack; }
// use(load(offset), offset) for the rows of this thread in part `which`, in order; kAhead loads are in flight. One is best where the walk
// writes too (measured): more threads fit.
template <int kAhead, class Load, class Use>
__device__ __forceinline__ void each_row(const Columns& s, i64 which, Load load, Use use) {
  const i64 begin = which * s.part, end = begin + s.part < s.rows ? begin + s.part : s.rows;
  i64 at = (begin + threadIdx.y) * s.channels + channel_index();
  const i64 stop = end * s.channels, step = kDown * s.channels;
  for (; at + (kAhead - 1) * step < stop; at += kAhead * step) {
    decltype(load(at)) p[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) p[u] = load(at + u * step);
#pragma unroll
    for (int u = 0; u < kAhead; ++u) use(p[u], at + u * step);
  }
  for (; at < stop; at += step) use(load(at), at);
}
// The first walk goes backwards, since what was written last is still in the cache; the second one forwards, where
// the first one ended.
__device__ __forceinline__ i64 backwards() { return (i64)gridDim.y - 1 - blockIdx.y; }
template <class E> __device__ __forceinline__ void load_values(A* to, const E* from) {
#pragma unroll
  for (int v = 0; v < kPack; ++v) to[v] = widen(from[v]);
}
// Adds up over threads y; parts: [num_parts][2][channels].
__device__ __forceinline__ void put_sums(A* parts, const Columns& s, const A* a, const A* b) {
  constexpr int kValues = kAcross * kPack;
  __shared__ A sums[2][kDown][kValues];
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    sums[0][threadIdx.y][threadIdx.x * kPack + v] = a[v];
    sums[1][threadIdx.y][threadIdx.x * kPack + v] = b[v];
  }
  __syncthreads();
  const i64 first = (i64)blockIdx.x * kValues;
  for (int i = threadIdx.y * kAcross + threadIdx.x; i < 2 * kValues; i += 256) {
    const int which = i / kValues, k = i % kValues;
    A total = 0;
#pragma unroll
    for (int d = 0; d < kDown; ++d) total += sums[which][d][k];
    if (first + k < s.channels) parts[((i64)blockIdx.y * 2 + which) * s.channels + first + k] = total;
  }
}
// The sums of a channel over all parts, for threads y = 0; threads x along channels, threads y over parts.
__device__ __forceinline__ bool get_sums(const A* parts, const Columns& s, i64 c, A& a, A& b) {
  __shared__ A sums[2][32][33];
  a = b = 0;
  if (c < s.channels) {
#pragma unroll 8
    for (i64 k = threadIdx.y; k < s.num_parts; k += 32) {
      a += parts[k * 2 * s.channels + c];
      b += parts[(k * 2 + 1) * s.channels + c];
    }
  }
  sums[0][threadIdx.y][threadIdx.x] = a;
  sums[1][threadIdx.y][threadIdx.x] = b;
  __syncthreads();
  if (threadIdx.y != 0 || c >= s.channels) return false;
  for (int k = 1; k < 32; ++k) {
    a += sums[0][k][threadIdx.x];
    b += sums[1][k][threadIdx.x];
  }
  return true;
}
)cuda";

// table: mean and gain = scale / sqrt(var + eps) per channel.
const char* const kNormForwardText = R"cuda(
template <bool kAligned> __device__ __forceinline__ void add_rows(const T* x, const Columns& s, A* sum, A* square) {
  A shift[kPack];
  load_values(shift, x + channel_index());
  each_row<2>(
      s, backwards(), [&](i64 at) { return load_pack<kAligned>(x + at); },
      [&](const Packed& p, i64) {
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const A off = widen(p.v[v]) - shift[v];
          sum[v] += off;
          square[v] += off * off;
        }
      });
}
extern "C" __global__ void __launch_bounds__(256) column_sums(const T* x, A* parts, Columns s) {
  A sum[kPack], square[kPack];
#pragma unroll
  for (int v = 0; v < kPack; ++v) sum[v] = square[v] = 0;
  if (channel_index() < s.channels) {
    if (is_aligned(x)) add_rows<true>(x, s, sum, square);
    else add_rows<false>(x, s, sum, square);
  }
  put_sums(parts, s, sum, square);
}

extern "C" __global__ void column_stats(const T* x, const A* parts, const S* scale, A* table, M* means, V* vars,
                                        Columns s, double eps) {
  const i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
  A sum, square, mean = 0, var = 0;
  if (!get_sums(parts, s, c, sum, square)) return;
  if (s.rows > 0) {
    const A off = sum / (A)s.rows;
    mean = widen(x[c]) + off;
    var = square / (A)s.rows - off * off;
    if (var < 0) var = 0;
  }
  means[c] = narrow<M>(mean);
  vars[c] = narrow<V>(var);
  table[c] = mean;
  table[s.channels + c] = gain_of(var, scale[c], eps);
}

struct Given { Packed x; Pack<R, kPack> residual; };
template <bool kAligned>
__device__ __forceinline__ void apply(const T* x, const A* table, const B* bias, const R* residual, Y* y,
                                      const Columns& s) {
  const i64 c = channel_index();
  A shift[kPack], mean[kPack], gain[kPack];
  load_values(shift, bias + c);
  load_values(mean, table + c);
  load_values(gain, table + s.channels + c);
  each_row<1>(
      s, blockIdx.y,
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
          A value = normed(widen(p.x.v[v]) - mean[v], gain[v], shift[v]);
          if (kResidual) value += widen(p.residual.v[v]);
          out.v[v] = narrow<Y>(kRelu ? relu_of(value) : value);
        }
        store_pack<kAligned>(y + at, out);
      });
}
extern "C" __global__ void __launch_bounds__(256)
    column_apply(const T* x, const A* table, const B* bias, const R* residual, Y* y, Columns s) {
  if (channel_index() >= s.channels) return;
  if (is_aligned(x) && is_aligned(residual) && is_aligned(y)) apply<true>(x, table, bias, residual, y, s);
  else apply<false>(x, table, bias, residual, y, s);
}
)cuda";

// table: gain, mean(dy) gain, mean(dy xh) inv gain per channel, so that dx = dy gain - table 1 - (x - mean)
// table 2. dy: where y is positive; of a norm with a residual that is dresidual, which the first walk writes
// and the second one reads.
const char* const kNormGradText = R"cuda(
constexpr int kAhead = kFromY ? 1 : 2;
struct Given { Packed x; Pack<D, kPack> dy; Pack<E, kPack> second; Pack<K, kPack> y; };
template <bool kAligned>
__device__ __forceinline__ void add_rows(const T* x, const S* scale, const B* bias, const M* means, const V* vars,
                                         const K* y, const D* dy, const E* second, Z* dresidual, const Columns& s,
                                         double eps, A* sum, A* dot) {
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
    column_sums(const T* x, const S* scale, const B* bias, const M* means, const V* vars, const K* y, const D* dy,
                const E* second, Z* dresidual, A* parts, Columns s, double eps) {
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

extern "C" __global__ void column_stats(const A* parts, const S* scale, const V* vars, A* table, G* dscale, H* dbias,
                                        Columns s, double eps) {
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

template <bool kMasked> struct Seen { typedef D Type; };
template <> struct Seen<true> { typedef Z Type; };
typedef Seen<kFromY != 0>::Type Q;
struct Pair { Packed x; Pack<Q, kPack> dy; };
template <bool kAligned>
__device__ __forceinline__ void apply(const T* x, const A* table, const B* bias, const M* means, const Q* dy, X* dx,
                                      const Columns& s) {
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
  if (is_aligned(x) && is_aligned(dy) && is_aligned(dx)) apply<true>(x, table, bias, means, dy, dx, s);
  else apply<false>(x, table, bias, means, dy, dx, s);
}
)cuda";

const char* const kNormInferenceText = R"cuda(
extern "C" __global__ void column_apply(const T* x, const S* scale, const B* bias, const M* means, const V* vars, Y* y,
                                        Columns s, double eps) {
  const i64 c = channel_index();
  if (c >= s.channels) return;
  const bool aligned = is_aligned(x) && is_aligned(y);
  A gain[kPack], shift[kPack], mean[kPack], var[kPack];
  load_values(gain, scale + c);
  load_values(shift, bias + c);
  load_values(mean, means + c);
  load_values(var, vars + c);
#pragma unroll
  for (int v = 0; v < kPack; ++v) gain[v] = gain[v] / root_of(var[v] + (A)eps);
  each_row<1>(
      s, blockIdx.y, [&](i64 at) { return load_pack(x + at, aligned); },
      [&](const Packed& p, i64 at) {
        Pack<Y, kPack> out;
#pragma unroll
        for (int v = 0; v < kPack; ++v) out.v[v] = narrow<Y>(normed(widen(p.v[v]) - mean[v], gain[v], shift[v]));
        store_pack(y + at, out, aligned);
      });
}
)cuda";

}  // namespace trireme::kernel::cuda
