#include "trireme/op/elementwise/elementwise.h"

#include "trireme/op/ops.h"

namespace trireme::op::detail {
namespace {
Types infer_binary(TypeSpan in) {
  TR_RETURN_IF_ERROR(expect_dtype("b", in[1], in[0].dtype));
  auto shape = broadcast_shapes(in[0].shape, in[1].shape);
  if (!shape.ok()) return shape.status().with_prefix("a and b: ");
  return std::vector{TensorType{in[0].dtype, *shape}};
}
}  // namespace

Types infer_unary_float(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  return std::vector{in[0]};
}

Types infer_unary_numeric(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  return std::vector{in[0]};
}

Types infer_binary_float(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_floating("a", in[0]));
  return infer_binary(in);
}

Types infer_binary_numeric(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_numeric("a", in[0]));
  return infer_binary(in);
}

Types infer_unary_bool(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_dtype("x", in[0], DType::kBool));
  return std::vector{in[0]};
}

Types infer_binary_bool(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_dtype("a", in[0], DType::kBool));
  return infer_binary(in);
}

Types infer_compare_any(TypeSpan in, const Attrs&) {
  TR_ASSIGN_OR_RETURN(std::vector<TensorType> out, infer_binary(in));
  out[0].dtype = DType::kBool;
  return out;
}

Types infer_compare_numeric(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_numeric("a", in[0]));
  return infer_compare_any(in, attrs);
}

std::vector<LayoutOption> elementwise_layout(TypeSpan in, const Attrs&) {
  Shape out;
  for (const TensorType& t : in) {
    auto shape = broadcast_shapes(out, t.shape);
    if (!shape.ok()) return {};
    out = *shape;
  }
  std::vector<LayoutOption> options;
  for (int d = 0; d < out.rank(); ++d) {
    LayoutOption option{{}, {d}};
    for (const TensorType& t : in) {
      const int own = d - (out.rank() - t.shape.rank());
      option.inputs.push_back(own >= 0 && t.shape[own] == out[d] ? own : kReplicate);
    }
    options.push_back(std::move(option));
  }
  return options;
}

Value scalar_like(GradBuilder& g, Value v, double value) {
  const DType dtype = g.type(v).dtype;
  return g.add(kFill, {}, {{"value", value}, {"dtype", dtype}, {"shape", std::vector<std::int64_t>{}}});
}

Value quotient(GradBuilder& g, Value a, Value b) { return g.add(kDiv, {a, b}); }

Value where(GradBuilder& g, Value cond, Value v) { return g.add(kSelect, {cond, v, scalar_like(g, v, 0)}); }

Result<Grads> extremum_grad(GradBuilder& g, const OpDef& loses_a, const OpDef& loses_b) {
  const Value a = g.input(0), b = g.input(1), dy = g.grad_output(0), zero = scalar_like(g, dy, 0);
  const Value shared = g.add(kSelect, {g.add(kEqual, {a, b}), g.scale(dy, 0.5), dy});
  Grads grads(2);
  if (g.needs_grad(0))
    grads[0] = g.reduce_to_shape_of(g.add(kSelect, {g.add(loses_a, {a, b}), zero, shared}), a);
  if (g.needs_grad(1))
    grads[1] = g.reduce_to_shape_of(g.add(kSelect, {g.add(loses_b, {a, b}), zero, shared}), b);
  return grads;
}

}  // namespace trireme::op::detail
