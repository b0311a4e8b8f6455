// A tensor cut into pieces along a dimension.
#include "trireme/op/array/array.h"

#include <fmt/format.h>
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const int axis, resolve_axis("axis", attrs.get_int("axis"), in[0]));
  const Ints& sizes = attrs.get_ints("sizes");
  std::vector<TensorType> out;
  std::int64_t left = in[0].shape[axis];
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > left) break;
    left -= size;
    out.push_back(in[0]);
    out.back().shape.set(axis, size);
  }
  if (sizes.empty() || out.size() != sizes.size() || left != 0) {
    return error(Code::kInvalid,
                 "attribute 'sizes': got [{}] for dimension {} of {}, expected sizes that add up to {}",
                 fmt::join(sizes, ", "), axis, in[0].to_string(), in[0].shape[axis]);
  }
  return out;
}

Result<Grads> grad(GradBuilder& g) {
  std::vector<Value> parts;
  for (int i = 0; i < static_cast<int>(g.attrs().get_ints("sizes").size()); ++i) {
    const Value dy = g.grad_output(i);
    parts.push_back(dy.is_null() ? g.zeros_like(g.output(i)) : dy);
  }
  return Grads{g.add(kConcat, parts, {{"axis", g.attrs().get_int("axis")}})};
}

void run(KernelArgs& a) {
  const Tensor& x = a.in(0);
  const int axis = *resolve_axis("axis", a.attrs.get_int("axis"), x.type());
  std::int64_t at = 0;
  for (const Tensor& y : a.outputs) {
    if (y.shape().num_elems() == 0) continue;
    copy_elements(x.dtype(), y.shape(), address(x, at * x.strides()[idx(axis)]), x.strides(), y.raw(),
                  y.strides());
    at += y.shape()[axis];
  }
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const auto axis = resolve_axis("axis", attrs.get_int("axis"), in[0]);
  if (!axis.ok()) return {};
  auto options = same_dims_layout(in[0].shape.rank(), [&](int d) { return d != *axis; });
  for (LayoutOption& o : options) o.outputs.assign(attrs.get_ints("sizes").size(), o.inputs[0]);
  return options;
}
}  // namespace

const OpDef kSplit{
    .name = "split",
    .doc = "x cut into pieces of given sizes along one dimension: one output each.",
    .family = "array",
    .num_inputs = 1,
    .num_outputs = -1,
    .attrs = {{"axis", std::int64_t{0}, "dimension; negative ones count from the end"},
              {"sizes", Ints{}, "sizes of the pieces; their sum is that of the dimension", true}},
    .dtypes = kAnyDType,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = copy_cost,
    .layout = layout,
    .linear = {.inputs = 1}};

}  // namespace trireme::op
