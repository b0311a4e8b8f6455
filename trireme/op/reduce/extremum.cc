#include "trireme/op/reduce/extremum.h"

#include "trireme/op/ops.h"

namespace trireme::op::detail {

Types infer_extremum(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  TR_ASSIGN_OR_RETURN(const Axes axes, resolve_axes(in[0], attrs));
  if (axes.count == 0) {
    return error(Code::kInvalid, "x: got {}, expected at least one element along the reduced dimensions",
                 in[0].to_string());
  }
  return infer_reduce(in[0], attrs);
}

Result<Grads> extremum_grad(GradBuilder& g) {
  const Value x = g.input(0);
  const Value is_best = g.add(kEqual, {x, broadcast_reduced(g, g.output(0))});
  const Value mask = g.add(kCast, {is_best}, {{"dtype", g.type(x).dtype}});
  const Value ties = g.add(kSum, {mask}, g.attrs());
  return Grads{g.mul(mask, broadcast_reduced(g, g.add(kDiv, {g.grad_output(0), ties})))};
}

std::vector<AttrSpec> arg_attrs() {
  return {{"axis", std::int64_t{-1}, "dimension; negative ones count from the end"},
          {"keep_dims", false, "keep the dimension with size 1"}};
}

Types infer_arg(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  TR_ASSIGN_OR_RETURN(const int axis, resolve_axis("axis", attrs.get_int("axis"), in[0]));
  if (in[0].shape[axis] == 0) {
    return error(Code::kInvalid, "x: got {}, expected at least one element along dimension {}",
                 in[0].to_string(), axis);
  }
  std::vector<std::int64_t> dims = dims_of(in[0].shape);
  if (attrs.get_bool("keep_dims")) {
    dims[idx(axis)] = 1;
  } else {
    dims.erase(dims.begin() + axis);
  }
  return std::vector{TensorType{DType::kI64, Shape(dims)}};
}

std::vector<LayoutOption> arg_layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options;
  const auto axis = resolve_axis("axis", attrs.get_int("axis"), in[0]);
  for (int d = 0; axis.ok() && d < in[0].shape.rank(); ++d) {
    if (d != *axis) options.push_back({{d}, {d > *axis && !attrs.get_bool("keep_dims") ? d - 1 : d}});
  }
  return options;
}

// One comparison per element after the first of its row.
cost::OpCost arg_cost(TypeSpan in, TypeSpan out, const Attrs&) {
  cost::OpCost cost = fold_cost(in, out, 1);
  cost.flops -= elems(out[0]);
  return cost;
}

}  // namespace trireme::op::detail
