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
extern "C" __global__ void layer_norm(const T* x, const T* scale, const T* bias, T* y, T* means, T* vars, i64 rows,
                                      i64 n, double eps) {
  const i64 r = row_index();
  if (r >= rows) return;
  const Row row(x + r * n, n);
  A mean = 0, var = 0;
  row.each([&](const Packed& p, int) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) mean += load_acc(p.v[v]);
  });
  mean = n > 0 ? row_sum(mean) / (A)n : (A)0;
  row.each([&](const Packed& p, int) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const A off = load_acc(p.v[v]) - mean;
      var += off * off;
    }
  });
  var = n > 0 ? row_sum(var) / (A)n : (A)0;
  if (row_lane() == 0) {
    means[r] = store_acc<T>(mean);
    vars[r] = store_acc<T>(var);
  }
  const A inv = (A)1 / root_of(var + (A)eps);
  T* to = y + r * n;
  const bool params = is_aligned(scale) && is_aligned(bias), aligned = is_aligned(to);
  row.each([&](const Packed& p, int i) {
    const Packed s = load_pack(scale + i, params), b = load_pack(bias + i, params);
    Packed out;
#pragma unroll
    for (int v = 0; v < kPack; ++v)
      out.v[v] = store_acc<T>((load_acc(p.v[v]) - mean) * inv * load_acc(s.v[v]) + load_acc(b.v[v]));
    store_pack(to + i, out, aligned);
  });
}
)cuda";

// parts: [blocks][dscale, dbias][n]. Where rows do not fit into registers kKept is 0 and parts are not
// written.
constexpr const char* kGradText = R"cuda(
constexpr int kWarps = 8;  // rows at once in a block that has a row per warp
extern "C" __global__ void __launch_bounds__(kByWarp ? kWarps * 32 : kThreads)
    layer_norm_grad(const T* x, const T* scale, const T* means, const T* vars, const T* dy, T* dx, A* parts, i64 rows,
                    i64 n, double eps) {
  A dscale[kKeep][kPack], dbias[kKeep][kPack];
#pragma unroll
  for (int u = 0; u < kKeep; ++u)
#pragma unroll
    for (int v = 0; v < kPack; ++v) dscale[u][v] = dbias[u][v] = 0;
  const bool params = is_aligned(scale);
  for (i64 r = row_index(); r < rows; r += (i64)gridDim.x * (kByWarp ? kWarps : 1)) {
    const Row row(x + r * n, n), up(dy + r * n, n);
    const A mean = load_acc(means[r]), inv = (A)1 / root_of(load_acc(vars[r]) + (A)eps);
    A sum = 0, dot = 0;
    row.each_placed([&](const Packed& p, int i, int u) {
      const Packed s = load_pack(scale + i, params), d = kKept ? up.kept[u] : load_pack(up.from + i, up.aligned);
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        const A xh = (load_acc(p.v[v]) - mean) * inv, dv = load_acc(d.v[v]), g = dv * load_acc(s.v[v]);
        sum += g;
        dot += g * xh;
        if (kKept) {
          dscale[u][v] += dv * xh;
          dbias[u][v] += dv;
        }
      }
    });
    sum = row_sum(sum) / (A)n;
    dot = row_sum(dot) / (A)n;
    T* to = dx + r * n;
    const bool aligned = is_aligned(to);
    row.each_placed([&](const Packed& p, int i, int u) {
      const Packed s = load_pack(scale + i, params), d = kKept ? up.kept[u] : load_pack(up.from + i, up.aligned);
      Packed out;
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        const A xh = (load_acc(p.v[v]) - mean) * inv, g = load_acc(d.v[v]) * load_acc(s.v[v]);
        out.v[v] = store_acc<T>(inv * (g - sum - xh * dot));
      }
      store_pack(to + i, out, aligned);
    });
  }
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
          sums[0][c] = w == 0 ? dscale[u][v] : sums[0][c] + dscale[u][v];
          sums[1][c] = w == 0 ? dbias[u][v] : sums[1][c] + dbias[u][v];
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
          mine[c] = dscale[u][v];
          mine[n + c] = dbias[u][v];
        }
      }
  }
}

// For long rows: threads x along columns, blocks y over parts of the rows.
extern "C" __global__ void norm_params(const T* x, const T* means, const T* vars, const T* dy, A* parts, i64 rows,
                                       i64 n, double eps) {
  const i64 c = first_index(), each = (rows + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * each;
  if (c >= n) return;
  const i64 end = begin + each < rows ? begin + each : rows;
  A dscale = 0, dbias = 0;
  for (i64 r = begin; r < end; ++r) {
    const A inv = (A)1 / root_of(load_acc(vars[r]) + (A)eps), d = load_acc(dy[r * n + c]);
    dscale += d * ((load_acc(x[r * n + c]) - load_acc(means[r])) * inv);
    dbias += d;
  }
  parts[blockIdx.y * 2 * n + c] = dscale;
  parts[blockIdx.y * 2 * n + n + c] = dbias;
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

std::string text_of(const CudaQuery& q, const RowPlan& plan, std::string_view body) {
  return typed_text(
      q.inputs[0].dtype,
      {{"kPack", plan.pack}, {"kThreads", plan.threads}, {"kKeep", plan.keep}, {"kKept", plan.kept}},
      {pack_text(), row_text(), body, sum_parts_text()});
}

}  // namespace

// Threads x along 2 n columns, threads y over parts.
std::string_view sum_parts_text() {
  return R"cuda(
extern "C" __global__ void sum_parts(const A* parts, T* dscale, T* dbias, i64 n, i64 num_parts) {
  __shared__ A sums[32][33];
  const i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
  A sum = 0;
  if (c < 2 * n)
    for (i64 k = threadIdx.y; k < num_parts; k += 32) sum += parts[k * 2 * n + c];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= 2 * n) return;
  for (int k = 1; k < 32; ++k) sum += sums[k][threadIdx.x];
  if (c < n) dscale[c] = store_acc<T>(sum);
  else dbias[c - n] = store_acc<T>(sum);
}
)cuda";
}

Made make_layer_norm(const CudaQuery& q) {
  const Rows s = rows_of(q);
  const RowPlan plan = plan_row(q.inputs[0].dtype, s.n);
  const double eps = q.attrs.get_float("eps");
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text_of(q, plan, kForwardText), "layer_norm"));
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (s.rows == 0) return ok_status();
    return launch(a.stream, *f, {plan.blocks(s.rows)}, {static_cast<unsigned>(plan.block())}, 0,
                  a.in(0).raw(), a.in(1).raw(), a.in(2).raw(), a.out(0).raw(), a.out(1).raw(), a.out(2).raw(),
                  s.rows, s.n, eps);
  });
}

Made make_layer_norm_grad(const CudaQuery& q) {
  const Rows s = rows_of(q);
  const RowPlan plan = plan_row(q.inputs[0].dtype, s.n);
  const double eps = q.attrs.get_float("eps");
  const std::string text = text_of(q, plan, kGradText);
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
  const std::size_t acc = q.inputs[0].dtype == DType::kF64 ? sizeof(double) : sizeof(float);
  return make_kernel(
      [=](const CudaArgs& a) -> Status {
        if (s.n == 0) return ok_status();
        void *x = a.in(0).raw(), *mean = a.in(2).raw(), *var = a.in(3).raw(), *dy = a.in(4).raw();
        void* work = a.workspace;
        if (s.rows > 0)
          TR_RETURN_IF_ERROR(launch(a.stream, *f, {blocks},
                                    {by_warp ? 256U : static_cast<unsigned>(plan.threads)}, 0, x,
                                    a.in(1).raw(), mean, var, dy, a.out(0).raw(), work, s.rows, s.n, eps));
        if (s.rows > 0 && !plan.kept)
          TR_RETURN_IF_ERROR(launch(a.stream, *params, {blocks_for(s.n, 256), static_cast<unsigned>(parts)},
                                    {256}, 0, x, mean, var, dy, work, s.rows, s.n, eps));
        return launch(a.stream, *sum, {blocks_for(2 * s.n, 32)}, {32, 32}, 0, work, a.out(1).raw(),
                      a.out(2).raw(), s.n, parts);
      },
      static_cast<std::size_t>(parts * 2 * s.n) * acc);
}

}  // namespace trireme::kernel::cuda
