// What forms of operands (op::Forms) mean: a node of an op whose operands are cast on the way in and out, or
// lie in memory in another order. Everything that an OpDef says about plain operands is adapted here, and
// only here.
//
// Text form: an item per input, '>', an item per output; an item is '-' where the operand is plain, a dtype,
// "nhwc" where the channels are last, or both:
//   matmul of bf16 operands in f32        f32,f32>-
//   conv2d with the channels last         nhwc,nhwc>nhwc
//   max_pool2d of both                    f32/nhwc>bf16/nhwc
// Gradients are taken of plain nodes: a formed one has none.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/op/op.h"

namespace trireme::op {

std::string to_text(const Forms& forms);  // empty: plain
Result<Forms> parse_forms(std::string_view text);
// The op of a node as plans and reports name it: "conv2d", or "conv2d[nhwc,nhwc>nhwc]".
std::string formed_name(const OpDef& def, const Forms& forms);

// Forms of so many operands, all plain.
Forms forms_of(std::size_t num_inputs, std::size_t num_outputs);

// [N,H,W,C] as [N,C,H,W].
Shape channels_second(const Shape& shape);

// infer_types for operands that have forms: `in` are the types in memory, and so are those that come back.
// Only pure ops with a reference can have forms.
Result<std::vector<TensorType>> infer_types(const OpDef& def, std::span<const TensorType> in,
                                            const Attrs& completed, const Forms& forms);
// The arithmetic of the op, the traffic of the operands as they are in memory.
cost::OpCost formed_cost(const KernelQuery& node);
// The ways to cut the op; none where an operand is in another order.
std::vector<LayoutOption> formed_layout(const KernelQuery& node);

// The types that the op itself sees and makes.
struct OpTypes {
  std::vector<TensorType> inputs, outputs;
};
OpTypes types_within(const KernelQuery& node);

// The operands in the shapes that the op has and with the dtypes that are in memory: what kernels take that
// work on formed operands where they are.
struct MemoryTypes {
  explicit MemoryTypes(const KernelQuery& node);
  std::vector<TensorType> inputs, outputs;
  bool channels_last = false;  // all operands of four dimensions are so
  bool mixed = false;          // some are, and some are not
};

// The reference kernel of a node, plain or formed. `run` is null where the op has none; `state` belongs into
// the arguments of every call.
struct ReferenceKernel {
  KernelFn run = nullptr;
  std::size_t workspace_bytes = 0;
  std::unique_ptr<KernelState> state = nullptr;
};
ReferenceKernel reference_kernel(const KernelQuery& node);

}  // namespace trireme::op
