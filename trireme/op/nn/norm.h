// What batch_norm, layer_norm and their gradients share.
//
// x is cut into groups: the dimensions that are averaged over (`averaged`) form a group, the others number
// the groups. Per group: mean, var = mean of (x - mean)^2 (divided by the count, not count - 1),
// inv = 1 / sqrt(var + eps); xh = (x - mean) inv; y = xh scale + bias. A group without elements has mean and
// var 0. scale and bias are read along `scaled` dimensions: of a group each (batch norm) or within (layer
// norm).
//
// Gradient, with g = dy scale and means over the group:
//   dx = inv (g - mean(g) - xh mean(g xh)), dscale = sum of dy xh, dbias = sum of dy.
#pragma once

#include "trireme/op/detail/cut_graph.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op::detail {

struct NormView {
  Shape x;
  std::array<bool, kMaxRank> averaged{}, scaled{};

  Shape group_shape() const;               // of mean and var
  Shape scale_shape() const;               // of scale and bias
  Shape group_column() const;              // of x, with size 1 where it is averaged
  Shape scale_column() const;              // of x, with size 1 where scale does not go
  std::vector<std::int64_t> axes() const;  // that are averaged over
  double groups() const { return static_cast<double>(group_shape().num_elems()); }
};
NormView batch_view(const Shape& x);                  // groups: dimension 1
NormView layer_view(const Shape& x, std::int64_t k);  // groups: all dimensions but the last k

AttrSpec eps_attr();
Status expect_eps(const Attrs& attrs);
// x, scale, bias -> y, mean, var.
Types infer_norm(TypeSpan in, const NormView& v, const Attrs& attrs);
void run_norm(KernelArgs& a, const NormView& v);
cost::OpCost norm_cost(TypeSpan in, TypeSpan out, const NormView& v);
// `grad_op` computes dx, dscale, dbias from x, scale, mean, var, dy.
Grads norm_grads(GradBuilder& g, const NormView& v, const OpDef& grad_op);

Types infer_norm_grad(TypeSpan in, const NormView& v, const Attrs& attrs);
std::size_t norm_grad_workspace(const NormView& v);
void run_norm_grad(KernelArgs& a, const NormView& v);
cost::OpCost norm_grad_cost(TypeSpan in, TypeSpan out, const NormView& v);
// A rewritten cut of a dimension that is averaged over, and what positions compute then.
LayoutOption cut_norm_option(std::vector<AxisCut> inputs, std::vector<AxisCut> outputs);
Cut cut_norm(CutBuilder& b, const NormView& whole);
Cut cut_norm_grad(CutBuilder& b, const NormView& whole);
// Gradients of the gradient op, with mean and var as inputs of their own.
Grads norm_grad_grads(GradBuilder& g, const NormView& v);

}  // namespace trireme::op::detail
