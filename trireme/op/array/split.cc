// A tensor cut into pieces along a dimension.
#include "trireme/op/array/array.h"

#include <fmt/format.h>
#include <algorithm>
#include <iterator>

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
  const Ints& sizes = attrs.get_ints("sizes");
  for (LayoutOption& o : options) o.outputs.assign(sizes.size(), o.inputs[0]);
  // Equal pieces are the blocks of a cut along the axis.
  const bool equal = !sizes.empty() && std::count(sizes.begin(), sizes.end(), sizes[0]) == std::ssize(sizes);
  if (equal && sizes[0] > 0)
    options.push_back({{AxisCut(*axis, static_cast<int>(sizes.size()))},
                       std::vector<AxisCut>(sizes.size(), *axis),
                       /*rewritten=*/true,
                       /*any_indices=*/true});
  return options;
}

// A position splits its part of all blocks.
Result<std::vector<Value>> cut(CutBuilder& b) {
  const int axis = b.option().inputs[0].dim;
  const std::size_t pieces = b.attrs().get_ints("sizes").size();
  const std::int64_t own = b.type(b.input(0)).shape[axis] / static_cast<std::int64_t>(pieces);
  const Value split =
      b.add(kSplit, {b.input(0)}, {{"axis", std::int64_t{axis}}, {"sizes", Ints(pieces, own)}});
  std::vector<Value> outputs;
  for (std::size_t k = 0; k < pieces; ++k) outputs.push_back({split.node, static_cast<std::int32_t>(k)});
  return outputs;
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
    .linear = {.inputs = 1},
    .cut = cut};

}  // namespace trireme::op
