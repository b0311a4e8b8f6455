// softmax and log_softmax along any dimension. Along the last one a warp or a block shares a row, which stays
// in registers or in shared memory; along another one a thread walks down a column.
#include "trireme/op/nn/softmax.h"
#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {
namespace {

constexpr const char* kResultText = R"cuda(
__device__ __forceinline__ T result(A v, A top, A total) {
  return store_acc<T>(kLog ? v - top - total : exp_of(v - top) / total);
}
)cuda";

constexpr const char* kRowsText = R"cuda(
template <bool kAligned> __device__ __forceinline__ void softmax_row(const T* x, T* y, i64 n) {
  const Row<T, kAligned> row(x, n);
  A top = -inf(), total = 0;
  row.scan([&](const Packed& p, int) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) top = Max::of(top, load_acc(p.v[v]));
  });
  top = row_max(top);
  row.each([&](const Packed& p, int) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) total += exp_of(load_acc(p.v[v]) - top);
  });
  total = row_sum(total);
  if (kLog) total = log_of(total);
  row.each([&](const Packed& p, int i) {
    Packed out;
#pragma unroll
    for (int v = 0; v < kPack; ++v) out.v[v] = result(load_acc(p.v[v]), top, total);
    store_pack<kAligned>(y + i, out);
  });
}

extern "C" __global__ void softmax_rows(const T* x, T* y, i64 rows, i64 n) {
  const i64 r = row_index();
  if (r >= rows) return;
  if (is_aligned(x) && is_aligned(y)) softmax_row<true>(x + r * n, y + r * n, n);
  else softmax_row<false>(x + r * n, y + r * n, n);
}
)cuda";

constexpr const char* kColumnsText = R"cuda(
extern "C" __global__ void softmax_columns(const T* x, T* y, i64 outer, i64 n, i64 inner) {
  for (i64 c = first_index(); c < outer * inner; c += grid_step()) {
    const i64 base = c / inner * n * inner + c % inner;
    A top = -inf(), total = 0;
    for (i64 i = 0; i < n; ++i) top = Max::of(top, load_acc(x[base + i * inner]));
    for (i64 i = 0; i < n; ++i) total += exp_of(load_acc(x[base + i * inner]) - top);
    if (kLog) total = log_of(total);
    for (i64 i = 0; i < n; ++i) y[base + i * inner] = result(load_acc(x[base + i * inner]), top, total);
  }
}
)cuda";

Made make_columns(const CudaQuery& q, std::int64_t outer, std::int64_t n, std::int64_t inner) {
  const std::string text =
      typed_text(q.inputs[0].dtype, {{"kPack", 1}, {"kLog", q.def.name == "log_softmax"}},
                 {pack_text(), kResultText, kColumnsText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "softmax_columns"));
  return make_kernel([f, outer, n, inner](const CudaArgs& a) -> Status {
    if (outer * n * inner == 0) return ok_status();
    return launch(a.stream, *f, {blocks_for(outer * inner, 128)}, {128}, 0, a.in(0).raw(), a.out(0).raw(),
                  outer, n, inner);
  });
}

}  // namespace

Made make_softmax(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
  TR_ASSIGN_OR_RETURN(const int axis, op::detail::resolve_axis("axis", q.attrs.get_int("axis"), x));
  std::int64_t outer = 1, inner = 1;
  const std::int64_t n = x.shape[axis];
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (d < axis) outer *= x.shape[d];
    if (d > axis) inner *= x.shape[d];
  }
  if (inner != 1) return make_columns(q, outer, n, inner);
  const RowPlan plan = plan_row(x.dtype, dtype_size(x.dtype), n, true);
  const std::string text = typed_text(x.dtype, {{"kPack", plan.pack}, {"kLog", q.def.name == "log_softmax"}},
                                      {row_constants(plan), pack_text(), row_text(), kResultText, kRowsText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "softmax_rows"));
  return make_kernel([f, plan, outer, n](const CudaArgs& a) -> Status {
    if (outer * n == 0) return ok_status();
    return launch(a.stream, *f, {plan.blocks(outer)}, {static_cast<unsigned>(plan.block())},
                  plan.shared_bytes, a.in(0).raw(), a.out(0).raw(), outer, n);
  });
}

}  // namespace trireme::kernel::cuda
