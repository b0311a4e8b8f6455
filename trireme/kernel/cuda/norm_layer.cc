// layer_norm and its gradient. x is [rows, n]; a warp or a block has a row, which stays in registers up to
// some 16,000 elements. Formulas: op/nn/norm.h.
//
// The gradient has every thread add what its columns give to dscale and dbias over many rows; partial sums go
// to the workspace and a second kernel adds them in a fixed order. Rows too long for registers read x and dy
// again instead (norm_params).
#include <algorithm>

#include "trireme/kernel/cuda/norm.h"
#include "trireme/kernel/cuda/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {
namespace {

constexpr const char* kForwardText = R"cuda(
template <bool kAligned>
__device__ __forceinline__ void norm_row(const T* x, const S* scale, const B* bias, Y* y, M* mean_to, V* var_to, i64 n,
                                         double eps) {
  const Row<T, kAligned> row(x, n);
  A mean = 0, var = 0;
  row.scan([&](const Packed& p, int) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) mean += widen(p.v[v]);
  });
  mean = n > 0 ? row_sum(mean) / (A)n : (A)0;
  row.each([&](const Packed& p, int) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const A off = widen(p.v[v]) - mean;
      var += off * off;
    }
  });
  var = n > 0 ? row_sum(var) / (A)n : (A)0;
  if (row_lane() == 0) {
    *mean_to = narrow<M>(mean);
    *var_to = narrow<V>(var);
  }
  const A inv = (A)1 / root_of(var + (A)eps);
  row.each([&](const Packed& p, int i) {
    const auto s = load_pack<kAligned>(scale + i);
    const auto b = load_pack<kAligned>(bias + i);
    Pack<Y, kPack> out;
#pragma unroll
    for (int v = 0; v < kPack; ++v)
      out.v[v] = narrow<Y>((widen(p.v[v]) - mean) * inv * widen(s.v[v]) + widen(b.v[v]));
    store_pack<kAligned>(y + i, out);
  });
}

extern "C" __global__ void layer_norm(const T* x, const S* scale, const B* bias, Y* y, M* means, V* vars, i64 rows,
                                      i64 n, double eps) {
  const i64 r = row_index();
  if (r >= rows) return;
  if (is_aligned(x) && is_aligned(scale) && is_aligned(bias) && is_aligned(y))
    norm_row<true>(x + r * n, scale, bias, y + r * n, means + r, vars + r, n, eps);
  else
    norm_row<false>(x + r * n, scale, bias, y + r * n, means + r, vars + r, n, eps);
}
)cuda";

// parts: [blocks][dscale, dbias][n]. Where rows do not fit into registers kKept is 0 and parts are not
// written.
constexpr const char* kGradText = R"cuda(
constexpr int kWarps = 8;  // rows at once in a block that has a row per warp
// Rounded as by an op of its own, not as part of a multiply-add.
__device__ __forceinline__ float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }
struct Columns {
  A dscale[kKeep][kPack], dbias[kKeep][kPack];
};

template <bool kAligned>
__device__ __forceinline__ void grad_row(const T* x, const S* scale, A mean, A inv, const D* dy, X* dx, const O* other,
                                         C* copy, i64 n, Columns& columns) {
  const Row<T, kAligned> row(x, n);
  const Row<D, kAligned> up(dy, n);
  A sum = 0, dot = 0;
  row.each_placed([&](const Packed& p, int i, int u) {
    const auto s = load_pack<kAligned>(scale + i);
    const auto d = kKept ? up.kept[u] : load_pack<kAligned>(dy + i);
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const A xh = (widen(p.v[v]) - mean) * inv, dv = widen(d.v[v]), g = dv * widen(s.v[v]);
      sum += g;
      dot += g * xh;
      if (kKept) {
        columns.dscale[u][v] += dv * xh;
        columns.dbias[u][v] += dv;
      }
    }
  });
  sum = row_sum(sum) / (A)n;
  dot = row_sum(dot) / (A)n;
  row.each_placed([&](const Packed& p, int i, int u) {
    const auto s = load_pack<kAligned>(scale + i);
    const auto d = kKept ? up.kept[u] : load_pack<kAligned>(dy + i);
    Pack<X, kPack> out;
    Pack<O, kPack> o;
    Pack<C, kPack> low;
    if constexpr (kSums) o = load_pack<kAligned>(other + i);
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const A xh = (widen(p.v[v]) - mean) * inv, g = widen(d.v[v]) * widen(s.v[v]);
      out.v[v] = narrow<X>(inv * (g - sum - xh * dot));
      if constexpr (kSums) {
        out.v[v] = narrow<X>(plus(widen(out.v[v]), widen(o.v[v])));
        low.v[v] = narrow<C>(widen(out.v[v]));
      }
    }
    store_pack<kAligned>(dx + i, out);
    if constexpr (kSums) store_pack<kAligned>(copy + i, low);
  });
}

template <bool kAligned>
__device__ __forceinline__ void grad_rows(const T* x, const S* scale, const M* means, const V* vars, const D* dy, X* dx,
                                          const O* other, C* copy, i64 rows, i64 n, double eps, Columns& columns) {
  for (i64 r = row_index(); r < rows; r += (i64)gridDim.x * (kByWarp ? kWarps : 1)) {
    const A inv = (A)1 / root_of(widen(vars[r]) + (A)eps);
    grad_row<kAligned>(x + r * n, scale, widen(means[r]), inv, dy + r * n, dx + r * n, other + r * n,
                       copy + r * n, n, columns);
  }
}

extern "C" __global__ void __launch_bounds__(kByWarp ? kWarps * 32 : kThreads)
    layer_norm_grad(const T* x, const S* scale, const M* means, const V* vars, const D* dy, X* dx, A* parts,
                    const O* other, C* copy, i64 rows, i64 n, double eps) {
  Columns columns;
#pragma unroll
  for (int u = 0; u < kKeep; ++u)
#pragma unroll
    for (int v = 0; v < kPack; ++v) columns.dscale[u][v] = columns.dbias[u][v] = 0;
  if (is_aligned(x) && is_aligned(scale) && is_aligned(dy) && is_aligned(dx) && is_aligned(other) && is_aligned(copy))
    grad_rows<true>(x, scale, means, vars, dy, dx, other, copy, rows, n, eps, columns);
  else
    grad_rows<false>(x, scale, means, vars, dy, dx, other, copy, rows, n, eps, columns);
  if (!kKept) return;
  A* mine = parts + (i64)blockIdx.x * 2 * n;
  if constexpr (kByWarp) {  // the warps of a block add theirs in order
    __shared__ A sums[2][kKeep * 32 * kPack];
    for (int w = 0; w < kWarps; ++w) {
      __syncthreads();
      if (threadIdx.x / 32 != w) continue;
#pragma unroll
      for (int u = 0; u < kKeep; ++u)
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const int c = (u * 32 + row_lane()) * kPack + v;
          sums[0][c] = w == 0 ? columns.dscale[u][v] : sums[0][c] + columns.dscale[u][v];
          sums[1][c] = w == 0 ? columns.dbias[u][v] : sums[1][c] + columns.dbias[u][v];
        }
    }
    __syncthreads();
    for (int c = threadIdx.x; c < n; c += kWarps * 32) {
      mine[c] = sums[0][c];
      mine[n + c] = sums[1][c];
    }
  } else {
#pragma unroll
    for (int u = 0; u < kKeep; ++u)
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        const int c = (u * kThreads + row_lane()) * kPack + v;
        if (c < n) {
          mine[c] = columns.dscale[u][v];
          mine[n + c] = columns.dbias[u][v];
        }
      }
  }
}

// For long rows: threads x along columns, blocks y over parts of the rows.
extern "C" __global__ void norm_params(const T* x, const M* means, const V* vars, const D* dy, A* parts, i64 rows,
                                       i64 n, double eps) {
  const i64 c = first_index(), each = (rows + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * each;
  if (c >= n) return;
  const i64 end = begin + each < rows ? begin + each : rows;
  A dscale = 0, dbias = 0;
  for (i64 r = begin; r < end; ++r) {
    const A inv = (A)1 / root_of(widen(vars[r]) + (A)eps), d = widen(dy[r * n + c]);
    dscale += d * ((widen(x[r * n + c]) - widen(means[r])) * inv);
    dbias += d;
  }
  parts[blockIdx.y * 2 * n + c] = dscale;
  parts[blockIdx.y * 2 * n + n + c] = dbias;
}

// Threads x along 2 n columns, threads y over parts.
extern "C" __global__ void sum_parts(const A* parts, G* dscale, H* dbias, i64 n, i64 num_parts) {
  __shared__ A sums[32][33];
  const i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
  A sum = 0;
  if (c < 2 * n)
    for (i64 k = threadIdx.y; k < num_parts; k += 32) sum += parts[k * 2 * n + c];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= 2 * n) return;
  for (int k = 1; k < 32; ++k) sum += sums[k][threadIdx.x];
  if (c < n) dscale[c] = narrow<G>(sum);
  else dbias[c - n] = narrow<H>(sum);
}
)cuda";

struct Rows {
  std::int64_t rows = 1, n = 1;
};
Rows rows_of(const CudaQuery& q) {
  Rows out;
  const Shape& shape = q.inputs[0].shape;
  const std::int64_t first = shape.rank() - q.attrs.get_int("num_axes");
  for (int d = 0; d < shape.rank(); ++d) (d < first ? out.rows : out.n) *= shape[d];
  return out;
}

}  // namespace

Made make_layer_norm(const CudaQuery& q) {
  const Rows s = rows_of(q);
  const RowPlan plan = plan_row(q.inputs[0].dtype, widest_bytes(q), s.n, true);
  const double eps = q.attrs.get_float("eps");
  const std::string text =
      norm_text(q, {{"kPack", plan.pack}}, {row_constants(plan), pack_text(), row_text(), kForwardText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "layer_norm"));
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (s.rows == 0) return ok_status();
    return launch(a.stream, *f, {plan.blocks(s.rows)}, {static_cast<unsigned>(plan.block())},
                  plan.shared_bytes, a.in(0).raw(), a.in(1).raw(), a.in(2).raw(), a.out(0).raw(),
                  a.out(1).raw(), a.out(2).raw(), s.rows, s.n, eps);
  });
}

namespace {

// sums: with `other` and a copy of the result.
Made make_grad(const CudaQuery& q, bool sums) {
  const Rows s = rows_of(q);
  const RowPlan plan = plan_row(q.inputs[0].dtype, widest_bytes(q), s.n, false);
  const double eps = q.attrs.get_float("eps");
  const std::string text = norm_text(q, {{"kPack", plan.pack}, {"kSums", sums}},
                                     {row_constants(plan), pack_text(), row_text(), kGradText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "layer_norm_grad"));
  const Function* params = nullptr;
  if (!plan.kept) {
    TR_ASSIGN_OR_RETURN(params, q.device.function(text, "norm_params"));
  }
  TR_ASSIGN_OR_RETURN(const Function* sum, q.device.function(text, "sum_parts"));
  // Two to eight blocks for each multiprocessor of the GPUs that this is made for; a constant, so that sums
  // do not depend on the GPU.
  const bool by_warp = plan.threads == 32;
  const int per_multiprocessor = by_warp ? 2 : std::clamp(768 / plan.threads, 2, 8);
  const unsigned blocks =
      blocks_for(s.rows, by_warp ? 8 : 1, 1, 132U * static_cast<unsigned>(per_multiprocessor));
  const std::int64_t parts = s.rows == 0 ? 0 : plan.kept ? blocks : std::min<std::int64_t>(s.rows, 64);
  return make_kernel(
      [=](const CudaArgs& a) -> Status {
        if (s.n == 0) return ok_status();
        void *x = a.in(0).raw(), *mean = a.in(2).raw(), *var = a.in(3).raw(), *dy = a.in(4).raw();
        void *work = a.workspace, *other = sums ? a.in(5).raw() : nullptr,
             *copy = sums ? a.out(3).raw() : nullptr;
        if (s.rows > 0)
          TR_RETURN_IF_ERROR(
              launch(a.stream, *f, {blocks}, {by_warp ? 256U : static_cast<unsigned>(plan.threads)}, 0, x,
                     a.in(1).raw(), mean, var, dy, a.out(0).raw(), work, other, copy, s.rows, s.n, eps));
        if (s.rows > 0 && !plan.kept)
          TR_RETURN_IF_ERROR(launch(a.stream, *params, {blocks_for(s.n, 256), static_cast<unsigned>(parts)},
                                    {256}, 0, x, mean, var, dy, work, s.rows, s.n, eps));
        return launch(a.stream, *sum, {blocks_for(2 * s.n, 32)}, {32, 32}, 0, work, a.out(1).raw(),
                      a.out(2).raw(), s.n, parts);
      },
      static_cast<std::size_t>(parts * 2 * s.n) * sizeof(double));
}

}  // namespace

Made make_layer_norm_grad(const CudaQuery& q) { return make_grad(q, false); }
Made make_layer_norm_grad_sum(const CudaQuery& q) { return make_grad(q, true); }

}  // namespace trireme::kernel::cuda
