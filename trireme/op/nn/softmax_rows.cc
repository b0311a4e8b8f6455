#include "trireme/op/nn/softmax.h"

#include "trireme/op/ops.h"

namespace trireme::op::detail {

std::vector<AttrSpec> axis_attr() {
  return {{"axis", std::int64_t{-1}, "dimension; negative ones count from the end"}};
}

Types infer_along_axis(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  TR_RETURN_IF_ERROR(resolve_axis("axis", attrs.get_int("axis"), in[0]).status());
  return std::vector{in[0]};
}

std::vector<LayoutOption> along_axis_layout(TypeSpan in, const Attrs& attrs) {
  const auto axis = resolve_axis("axis", attrs.get_int("axis"), in[0]);
  std::vector<LayoutOption> options;
  for (int d = 0; axis.ok() && d < in[0].shape.rank(); ++d) {
    if (d != *axis) options.push_back({{d}, {d}});
  }
  return options;
}

std::vector<LayoutOption> softmax_layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options = along_axis_layout(in, attrs);
  const auto axis = resolve_axis("axis", attrs.get_int("axis"), in[0]);
  if (axis.ok() && in[0].shape[*axis] > 0)
    options.push_back({.inputs = {*axis}, .outputs = {*axis}, .rewritten = true, .any_indices = true});
  return options;
}

CutRows cut_rows(CutBuilder& b, Value x, int axis) {
  const std::vector<std::int64_t> axes{axis};
  const Value wide = widened(b, x);
  CutRows rows;
  rows.top = whole_max_over(b, wide, axes);
  rows.shifted = b.add(kSub, {wide, rows.top});
  rows.powers = b.add(kExp, {rows.shifted});
  rows.total = whole_sum_over(b, rows.powers, axes);
  return rows;
}

cost::OpCost along_axis_cost(TypeSpan in, TypeSpan out, const Attrs& attrs, double per_element,
                             double per_row) {
  const int axis = *resolve_axis("axis", attrs.get_int("axis"), in[0]);
  const double n = elems(in[0]), size = static_cast<double>(in[0].shape[axis]);
  const double flops = n > 0 ? per_element * n + per_row * (n / size) : 0;
  return {.flops = flops,
          .bytes = io_bytes(in, out),
          .work = flops,
          .depth = n > 0 ? 2 * log_depth(size) + 3 : 0};
}

}  // namespace trireme::op::detail
