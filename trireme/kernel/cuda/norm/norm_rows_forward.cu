// batch_norm over [rows, channels].
#pragma once

#include "trireme/kernel/cuda/norm/norm_rows.cu"

#pragma text kNormForwardText
// table: mean and gain = scale / sqrt(var + eps) per channel.
template <bool kAligned>
__device__ __forceinline__ void add_rows(const T* x, const Columns& s, A* sum, A* square) {
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
    if (is_aligned(x))
      add_rows<true>(x, s, sum, square);
    else
      add_rows<false>(x, s, sum, square);
  }
  put_sums(parts, s, sum, square);
}

extern "C" __global__ void column_stats(const T* x, const A* parts, const S* scale, A* table, M* means,
                                        V* vars, Columns s, double eps) {
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

struct Given {
  Packed x;
  Pack<R, kPack> residual;
};
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
  if (is_aligned(x) && is_aligned(residual) && is_aligned(y))
    apply<true>(x, table, bias, residual, y, s);
  else
    apply<false>(x, table, bias, residual, y, s);
}
