// residual_layer_norm: as layer_norm (norm_layer.cc), of a sum that is made on the way. Rows too long for
// registers are added up by a kernel of their own.
#include "trireme/kernel/cuda/norm/norm.h"
#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

extern const char kResidualNormText[];  // norm_residual.cu

namespace {

struct Sizes {
  std::int64_t rows, n;
};

// The sum first, then layer_norm of it.
Made make_long(const CudaQuery& q, const std::string& text, const Sizes& s) {
  const TensorType in[] = {q.outputs[3], q.inputs[3], q.inputs[4]};
  TR_ASSIGN_OR_RETURN(const Function* add, q.device.function(text, "residual_sum"));
  CudaQuery norm{q.def, in, q.outputs.first(3), q.attrs, q.device};
  TR_ASSIGN_OR_RETURN(std::shared_ptr<CudaKernel> then, make_layer_norm(norm));
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (s.rows * s.n > 0)
      TR_RETURN_IF_ERROR(launch(a.stream, *add, {blocks_for(s.rows * s.n, 256, 4)}, {256}, 0, a.in(0).raw(),
                                a.in(1).raw(), a.in(2).raw(), a.out(3).raw(), s.rows * s.n, s.n));
    const std::array<Tensor, 3> of{a.out(3), a.in(3), a.in(4)};
    return then->enqueue({of, a.outputs.first(3), a.workspace, a.stream});
  });
}

}  // namespace

Made make_residual_layer_norm(const CudaQuery& q) {
  const Sizes s{q.outputs[1].shape.num_elems(), q.inputs[2].shape.num_elems()};
  const auto type = [](const char* name, const TensorType& t) { return TypeName{name, t.dtype}; };
  const RowPlan plan = plan_row(q.inputs[0].dtype, widest_bytes(q), s.n, true);
  const bool half = dtype_size(q.inputs[0].dtype) == 2 && q.inputs[2].dtype == q.inputs[0].dtype;
  const std::string text = typed_text(
      {type("In", q.inputs[0]), type("R", q.inputs[1]), type("F", q.inputs[2]), type("S", q.inputs[3]),
       type("B", q.inputs[4]), type("Y", q.outputs[0]), type("M", q.outputs[1]), type("V", q.outputs[2]),
       type("Z", q.outputs[3])},
      {{"kPack", plan.pack}, {"kHalf", half}}, {row_constants(plan), kPackText, kRowText, kResidualNormText});
  if (!plan.kept || s.n == 0) return make_long(q, text, s);
  const double eps = q.attrs.get_float("eps");
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "residual_layer_norm"));
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (s.rows == 0) return ok_status();
    return launch(a.stream, *f, {plan.blocks(s.rows)}, {static_cast<unsigned>(plan.block())}, 0,
                  a.in(0).raw(), a.in(1).raw(), a.in(2).raw(), a.in(3).raw(), a.in(4).raw(), a.out(0).raw(),
                  a.out(1).raw(), a.out(2).raw(), a.out(3).raw(), s.rows, s.n, eps);
  });
}

}  // namespace trireme::kernel::cuda
