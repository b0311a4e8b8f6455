// Tensors one after the other along a dimension.
#include "trireme/op/array/array.h"

#include <algorithm>

#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  if (in.empty()) return error(Code::kInvalid, "inputs: got none, expected at least one");
  TR_ASSIGN_OR_RETURN(const int axis, resolve_axis("axis", attrs.get_int("axis"), in[0]));
  Ints dims = dims_of(in[0].shape);
  for (std::size_t i = 1; i < in.size(); ++i) {
    TensorType alike = in[i];  // but for the size along the axis
    if (alike.shape.rank() == in[0].shape.rank()) alike.shape.set(axis, in[0].shape[axis]);
    if (alike != in[0]) {
      return error(Code::kInvalid, "input {}: got {}, expected {} but for the size of dimension {}", i,
                   in[i].to_string(), in[0].to_string(), axis);
    }
    if (__builtin_add_overflow(dims[idx(axis)], in[i].shape[axis], &dims[idx(axis)])) {
      return error(Code::kInvalid, "inputs: got sizes along dimension {} that add up beyond 2^63", axis);
    }
  }
  auto shape = Shape::checked(dims);
  if (!shape.ok()) return shape.status().with_prefix("the result: ");
  return std::vector{TensorType{in[0].dtype, *shape}};
}

// dy cut into the sizes of the inputs. Where these are unknown the cuts are not known either.
Result<Grads> grad(GradBuilder& g) {
  TR_ASSIGN_OR_RETURN(const int axis, resolve_axis("axis", g.attrs().get_int("axis"), g.type(g.output(0))));
  const std::int64_t total = g.type(g.output(0)).shape[axis];
  if (total >= kUnknownDim / 2) {
    return error(Code::kInvalid,
                 "dimension {}: got an unknown size, expected a known one; build for a known "
                 "batch",
                 axis);
  }
  Ints sizes;
  for (int i = 0; i < g.num_inputs(); ++i) sizes.push_back(g.type(g.input(i)).shape[axis]);
  const Value parts = g.add(kSplit, {g.grad_output(0)}, {{"axis", std::int64_t{axis}}, {"sizes", sizes}});
  Grads grads;
  for (int i = 0; i < static_cast<int>(sizes.size()); ++i) grads.push_back({parts.node, i});
  return grads;
}

void run(KernelArgs& a) {
  const Tensor& y = a.out(0);
  const int axis = *resolve_axis("axis", a.attrs.get_int("axis"), y.type());
  std::int64_t at = 0;
  for (const Tensor& x : a.inputs) {
    if (x.shape().num_elems() == 0) continue;
    copy_elements(x.dtype(), x.shape(), x.raw(), x.strides(), address(y, at * y.strides()[idx(axis)]),
                  y.strides());
    at += x.shape()[axis];
  }
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const auto axis = resolve_axis("axis", attrs.get_int("axis"), in[0]);
  if (!axis.ok()) return {};
  auto options = same_dims_layout(in[0].shape.rank(), [&](int d) { return d != *axis; });
  for (LayoutOption& o : options) o.inputs.assign(in.size(), o.outputs[0]);
  // Equal inputs are the blocks of a cut along the axis.
  const auto is_equal = [&](const TensorType& t) { return t.shape[*axis] == in[0].shape[*axis]; };
  if (in.size() > 1 && std::all_of(in.begin(), in.end(), is_equal))
    options.push_back(
        {std::vector<AxisCut>(in.size(), *axis), {AxisCut(*axis, static_cast<int>(in.size()))}});
  return options;
}
}  // namespace

const OpDef kConcat{.name = "concat",
                    .doc = "Tensors that differ along one dimension only, one after the other along it.",
                    .family = "array",
                    .num_inputs = -1,
                    .attrs = {{"axis", std::int64_t{0}, "dimension; negative ones count from the end"}},
                    .dtypes = kAnyDType,
                    .infer = infer,
                    .grad = grad,
                    .reference = run,
                    .cost = copy_cost,
                    .layout = layout,
                    .linear = {.inputs = kAllInputs, .together = true}};

}  // namespace trireme::op
