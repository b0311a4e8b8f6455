// softmax and log_softmax along any dimension. Along the last one a warp or a block shares a row, which stays
// in registers or in shared memory; along another one a thread walks down a column.
#include "trireme/op/nn/softmax.h"
#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

extern const char kSoftmaxText[], kSoftmaxRowsText[], kSoftmaxColumnsText[];  // softmax.cu

namespace {

Made make_columns(const CudaQuery& q, std::int64_t outer, std::int64_t n, std::int64_t inner) {
  const std::string text =
      typed_text(q.inputs[0].dtype, {{"kPack", 1}, {"kLog", q.def.name == "log_softmax"}},
                 {kPackText, kSoftmaxText, kSoftmaxColumnsText});
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
  const std::string text =
      typed_text(x.dtype, {{"kPack", plan.pack}, {"kLog", q.def.name == "log_softmax"}},
                 {row_constants(plan), kPackText, kRowText, kSoftmaxText, kSoftmaxRowsText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "softmax_rows"));
  return make_kernel([f, plan, outer, n](const CudaArgs& a) -> Status {
    if (outer * n == 0) return ok_status();
    return launch(a.stream, *f, {plan.blocks(outer)}, {static_cast<unsigned>(plan.block())},
                  plan.shared_bytes, a.in(0).raw(), a.out(0).raw(), outer, n);
  });
}

}  // namespace trireme::kernel::cuda
