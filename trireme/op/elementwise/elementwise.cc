#include "trireme/op/elementwise/elementwise.h"

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

}  // namespace trireme::op::detail
