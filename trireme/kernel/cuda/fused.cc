// Elementwise ops, one at a time and in groups: loops of elementwise.h with the expressions of expressions.h.
// In a group results that are not outputs stay in registers, rounded to their dtype: the bits of the members
// one after another.
#include "trireme/kernel/cuda/elementwise.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/fused/program.h"

namespace trireme::kernel::cuda {
namespace {

Result<LoopStep> step_of(const op::OpDef& def, const op::Attrs& attrs, std::span<const DType> operands,
                         DType result, std::vector<int> registers) {
  TR_ASSIGN_OR_RETURN(std::string body, expression(def, attrs, operands, result));
  return LoopStep{std::move(body), std::move(registers), scalar_of(result)};
}

}  // namespace

Made make_elementwise(const CudaQuery& q) {
  const TensorType& y = q.outputs[0];
  ElementwiseLoop loop{.n = y.shape.num_elems()};
  std::vector<DType> dtypes;
  std::vector<int> registers;
  for (const TensorType& t : q.inputs) {
    loop.inputs.push_back(broadcast_view(scalar_of(t.dtype), t.shape, y.shape));
    registers.push_back(static_cast<int>(dtypes.size()));
    dtypes.push_back(t.dtype);
  }
  TR_ASSIGN_OR_RETURN(LoopStep step, step_of(q.def, q.attrs, dtypes, y.dtype, registers));
  loop.steps.push_back(std::move(step));
  loop.outputs.push_back({static_cast<int>(q.inputs.size()), flat_view(scalar_of(y.dtype), loop.n)});
  return make_loop_kernel(q.device, loop);
}

// The bias lies along dimension 1. Operands of several dtypes are those of an f32 op between casts.
Made make_bias_add(const CudaQuery& q) {
  const TensorType &x = q.inputs[0], &b = q.inputs[1], &y = q.outputs[0];
  const std::int64_t n = y.shape.num_elems(), channels = y.shape[1], batch = y.shape[0];
  const std::int64_t inner = n == 0 ? 0 : n / (batch * channels);
  ElementwiseLoop loop{.n = n};
  loop.inputs = {flat_view(scalar_of(x.dtype), n),
                 {scalar_of(b.dtype), {{batch, 0}, {channels, 1}, {inner, 0}}}};
  const DType dtype = x.dtype == y.dtype && b.dtype == y.dtype ? y.dtype : DType::kF32;
  const DType dtypes[] = {dtype, dtype};
  TR_ASSIGN_OR_RETURN(LoopStep step, step_of(q.def, q.attrs, dtypes, dtype, {0, 1}));
  loop.steps.push_back(std::move(step));
  loop.outputs.push_back({2, flat_view(scalar_of(y.dtype), n)});
  return make_loop_kernel(q.device, loop);
}

Result<ElementwiseLoop> loop_of_program(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const auto program, op::detail::parse_program(q.attrs.get_text("program")));
  TR_ASSIGN_OR_RETURN(const auto types, op::detail::register_types(program, q.inputs));
  const Shape& shape = types.back().shape;
  ElementwiseLoop loop{.n = shape.num_elems()};
  for (const TensorType& t : q.inputs)
    loop.inputs.push_back(broadcast_view(scalar_of(t.dtype), t.shape, shape));
  for (const auto& member : program.steps) {
    std::vector<DType> dtypes;
    for (const int r : member.operands) dtypes.push_back(types[static_cast<std::size_t>(r)].dtype);
    const DType result = types[loop.inputs.size() + loop.steps.size()].dtype;
    TR_ASSIGN_OR_RETURN(LoopStep step, step_of(*member.def, member.attrs, dtypes, result, member.operands));
    loop.steps.push_back(std::move(step));
  }
  for (const int r : program.outputs)
    loop.outputs.push_back({r, flat_view(scalar_of(types[static_cast<std::size_t>(r)].dtype), loop.n)});
  return loop;
}

Made make_fused(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const ElementwiseLoop loop, loop_of_program(q));
  return make_loop_kernel(q.device, loop);
}

}  // namespace trireme::kernel::cuda
