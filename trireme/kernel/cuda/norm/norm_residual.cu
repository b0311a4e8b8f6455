// residual_layer_norm.
#pragma once

#include "trireme/kernel/cuda/norm/norm_types.cu"
#include "trireme/kernel/cuda/norm/rows.cu"

constexpr bool kHalf = false;

#pragma text kResidualNormText
// T x, R branch, F shift, Z sum; the other types as in norm.h. kHalf: of a 16-bit op, whose parts round to 16
// bits. Sums are those of ops one by one, not parts of multiply-adds.
__device__ __forceinline__ float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ A rounded(A v) { return kHalf ? widen(narrow<T>(v)) : v; }
__device__ __forceinline__ A summed(T x, R branch, F shift) {
  return rounded(plus(widen(x), rounded(plus(widen(branch), widen(shift)))));
}

extern "C" __global__ void __launch_bounds__(256)
    residual_sum(const T* x, const R* branch, const F* shift, Z* sum, i64 total, i64 n) {
  for (i64 i = first_index(); i < total; i += grid_step())
    sum[i] = narrow<Z>(summed(x[i], branch[i], shift[i % n]));
}

template <bool kAligned>
__device__ __forceinline__ void norm_row(const T* x, const R* branch, const F* shift, const S* scale,
                                         const B* bias, Y* y, M* mean_to, V* var_to, Z* sum_to, int n,
                                         A eps) {
  const Row<T, kAligned> row(x, n);
  const Row<R, kAligned> added(branch, n);
  A kept[kKeep][kPack], mean = 0, var = 0;
  row.each_placed([&](const Packed& p, int i, int u) {
    const auto f = load_pack<kAligned>(shift + i);
    Pack<Z, kPack> out;
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      kept[u][v] = summed(p.v[v], added.kept[u].v[v], f.v[v]);
      out.v[v] = narrow<Z>(kept[u][v]);
      mean += kept[u][v];
    }
    store_pack<kAligned>(sum_to + i, out);
  });
  mean = row_sum(mean) / (A)n;
  row.each_placed([&](const Packed&, int, int u) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const A off = kept[u][v] - mean;
      var += off * off;
    }
  });
  var = row_sum(var) / (A)n;
  if (row_lane() == 0) {
    *mean_to = narrow<M>(mean);
    *var_to = narrow<V>(var);
  }
  const A inv = (A)1 / root_of(var + eps);
  row.each_placed([&](const Packed&, int i, int u) {
    const auto s = load_pack<kAligned>(scale + i);
    const auto b = load_pack<kAligned>(bias + i);
    Pack<Y, kPack> out;
#pragma unroll
    for (int v = 0; v < kPack; ++v)
      out.v[v] = narrow<Y>((kept[u][v] - mean) * inv * widen(s.v[v]) + widen(b.v[v]));
    store_pack<kAligned>(y + i, out);
  });
}

extern "C" __global__ void residual_layer_norm(const T* x, const R* branch, const F* shift, const S* scale,
                                               const B* bias, Y* y, M* means, V* vars, Z* sum, i64 rows,
                                               i64 n, double eps) {
  const i64 r = rows - 1 - row_index(), at = r * n;
  if (r < 0) return;
  if (is_aligned(x) && is_aligned(branch) && is_aligned(shift) && is_aligned(scale) && is_aligned(bias) &&
      is_aligned(y) && is_aligned(sum))
    norm_row<true>(x + at, branch + at, shift, scale, bias, y + at, means + r, vars + r, sum + at, (int)n,
                   (A)eps);
  else
    norm_row<false>(x + at, branch + at, shift, scale, bias, y + at, means + r, vars + r, sum + at, (int)n,
                    (A)eps);
}
