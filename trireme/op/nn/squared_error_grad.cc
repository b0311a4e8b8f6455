// Gradient of squared_error for the prediction: 2 weights[i] dlosses[i] (prediction[i] - target[i]).
#include "trireme/op/nn/sample_loss.h"
#include "trireme/op/ops.h"
#include "trireme/tensor/walk.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_compared(in));
  TR_RETURN_IF_ERROR(expect_type("dlosses", in[3], {in[0].dtype, {in[0].shape[0]}}));
  return std::vector{in[0]};
}

// Linear in prediction - target, in the weights and in dlosses: each gets the op with the gradient u in its
// place, or the sum of u times the op without it.
Result<Grads> grad(GradBuilder& g) {
  const Value p = g.input(0), t = g.input(1), weights = g.input(2), d = g.input(3), u = g.grad_output(0);
  Grads grads(4);
  if (g.needs_grad(0) || g.needs_grad(1)) {
    const Value dp = g.add(kSquaredErrorGrad, {u, g.zeros_like(u), weights, d});
    if (g.needs_grad(0)) grads[0] = dp;
    if (g.needs_grad(1)) grads[1] = g.neg(dp);
  }
  const auto along_u = [&](Value with_weights, Value with_d) {
    return sum_per_sample(g, g.mul(g.add(kSquaredErrorGrad, {p, t, with_weights, with_d}), u));
  };
  if (g.needs_grad(2)) grads[2] = g.add(kCast, {along_u(g.ones_like(weights), d)}, {{"dtype", DType::kF32}});
  if (g.needs_grad(3)) grads[3] = along_u(weights, g.ones_like(d));
  return grads;
}

void run(KernelArgs& a) {
  const Tensor &p = a.in(0), &t = a.in(1), &d = a.in(3), &out = a.out(0);
  Shape sample = p.shape();
  sample.set(0, 1);
  dispatch_float(p.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    for (std::int64_t i = 0; i < p.shape()[0]; ++i) {
      const float weight = weight_at(a.in(2), i);
      const A dloss = d.data<T>()[i * d.strides()[0]];
      const A factor = static_cast<A>(2 * weight) * dloss;
      const T* ps = p.data<T>() + i * p.strides()[0];
      const T* ts = t.data<T>() + i * t.strides()[0];
      T* outs = out.data<T>() + i * out.strides()[0];
      walk_rows<3>(sample, {p.strides(), t.strides(), out.strides()},
                   [&](const auto& offset, const auto& stride, std::int64_t n) {
                     for (std::int64_t j = 0; j < n; ++j) {
                       const A v = ps[offset[0] + j * stride[0]], w = ts[offset[1] + j * stride[1]];
                       T& result = outs[offset[2] + j * stride[2]];
                       result = weight == 0 ? static_cast<T>(0.0F) : static_cast<T>(factor * (v - w));
                     }
                   });
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) { return sample_cost(in, out, 2, 1); }
}  // namespace

const OpDef kSquaredErrorGrad{
    .name = "squared_error_grad",
    .doc = "Gradient of squared_error for the prediction, from (prediction, target, weights, dlosses).",
    .family = "nn",
    .num_inputs = 4,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = sample_layout,
    .linear = {.inputs = 1U << 3}};

}  // namespace trireme::op
