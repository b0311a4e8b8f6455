#include "trireme/op/nn/sample_loss.h"

#include "trireme/op/ops.h"

namespace trireme::op::detail {

Status expect_classified(TypeSpan in) {
  TR_RETURN_IF_ERROR(expect_floating("logits", in[0]));
  TR_RETURN_IF_ERROR(expect_rank("logits", in[0], 2));
  if (in[0].shape[1] == 0) {
    return error(Code::kInvalid, "logits: got {}, expected at least one class", in[0].to_string());
  }
  TR_RETURN_IF_ERROR(expect_index("labels", in[1]));
  TR_RETURN_IF_ERROR(expect_shape("labels", in[1], {in[0].shape[0]}));
  return expect_type("weights", in[2], {DType::kF32, {in[0].shape[0]}});
}

Status expect_compared(TypeSpan in) {
  TR_RETURN_IF_ERROR(expect_floating("prediction", in[0]));
  if (in[0].shape.rank() < 1) {
    return error(Code::kInvalid, "prediction: got {}, expected at least 1 dimension", in[0].to_string());
  }
  TR_RETURN_IF_ERROR(expect_type("target", in[1], in[0]));
  return expect_type("weights", in[2], {DType::kF32, {in[0].shape[0]}});
}

std::vector<LayoutOption> sample_layout(TypeSpan in, const Attrs&) {
  return {{std::vector<AxisCut>(in.size(), 0), {0}}};
}

std::vector<LayoutOption> class_layout(TypeSpan in, int of_classes) {
  LayoutOption classes{std::vector<AxisCut>(in.size(), kReplicate), {of_classes}, /*rewritten=*/true};
  classes.inputs[0] = 1;
  return {{std::vector<AxisCut>(in.size(), 0), {0}}, classes};
}

Value judged(CutBuilder& b, Value value, Value labels, Value weights, std::int64_t num_classes) {
  const TensorType type = b.type(value);
  const DType label_type = b.type(labels).dtype;
  Shape rows = type.shape;
  for (int d = 1; d < rows.rank(); ++d) rows.set(d, 1);
  const auto column = [&](Value per_sample) { return shaped(b, per_sample, rows); };
  const Value below = b.add(kLess, {labels, scalar(b, label_type, 0)});
  const Value above = b.add(kGreaterEqual, {labels, scalar(b, label_type, static_cast<double>(num_classes))});
  const Value zero = scalar(b, type.dtype, 0), nan = b.add(kDiv, {zero, zero});
  const Value known = b.add(kSelect, {column(b.add(kLogicalOr, {below, above})), nan, value});
  const Value off = b.add(kEqual, {weights, scalar(b, DType::kF32, 0)});
  return b.add(kSelect, {column(off), zero, known});
}

cost::OpCost sample_cost(TypeSpan in, TypeSpan out, double per_element, double per_sample) {
  const double n = elems(in[0]), samples = static_cast<double>(in[0].shape[0]);
  const double flops = per_element * n + per_sample * samples;
  return {.flops = flops,
          .bytes = io_bytes(in, out),
          .work = std::max(flops, n),
          .depth = n > 0 ? std::min(log_depth(n / samples) + 1, n) : 0};
}

Value sum_per_sample(GradBuilder& g, Value a) {
  std::vector<std::int64_t> axes;
  for (int d = 1; d < g.type(a).shape.rank(); ++d) axes.push_back(d);
  return axes.empty() ? a : g.add(kSum, {a}, {{"axes", axes}});
}

Value weights_as(GradBuilder& g, Value weights, Value like) {
  return g.add(kCast, {weights}, {{"dtype", g.type(like).dtype}});
}

}  // namespace trireme::op::detail
