// Weighted squared error per sample: weights[i] * sum over j of (prediction[i][j] - target[i][j])^2.
#include "trireme/op/nn/sample_loss.h"
#include "trireme/op/ops.h"
#include "trireme/tensor/walk.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_compared(in));
  return std::vector{TensorType{in[0].dtype, {in[0].shape[0]}}};
}

Result<Grads> grad(GradBuilder& g) {
  const Value p = g.input(0), t = g.input(1), weights = g.input(2), d = g.grad_output(0);
  Grads grads(3);
  if (g.needs_grad(0) || g.needs_grad(1)) {
    const Value dp = g.add(kSquaredErrorGrad, {p, t, weights, d});
    if (g.needs_grad(0)) grads[0] = dp;
    if (g.needs_grad(1)) grads[1] = g.neg(dp);
  }
  if (g.needs_grad(2)) {
    const Value plain = g.add(kSquaredError, {p, t, g.ones_like(weights)});
    grads[2] = g.add(kCast, {g.mul(d, plain)}, {{"dtype", DType::kF32}});
  }
  return grads;
}

void run(KernelArgs& a) {
  const Tensor &p = a.in(0), &t = a.in(1);
  Shape sample = p.shape();
  sample.set(0, 1);
  dispatch_float(p.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    for (std::int64_t i = 0; i < p.shape()[0]; ++i) {
      const float weight = weight_at(a.in(2), i);
      const T* ps = p.data<T>() + i * p.strides()[0];
      const T* ts = t.data<T>() + i * t.strides()[0];
      A total = 0;
      if (weight != 0) {
        walk_rows<2>(sample, {p.strides(), t.strides()},
                     [&](const auto& offset, const auto& stride, std::int64_t n) {
                       for (std::int64_t j = 0; j < n; ++j) {
                         const A v = ps[offset[0] + j * stride[0]], w = ts[offset[1] + j * stride[1]];
                         const A off = v - w;
                         total += off * off;
                       }
                     });
        total *= static_cast<A>(weight);
      }
      a.out(0).data<T>()[i] = static_cast<T>(total);
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) { return sample_cost(in, out, 3, 1); }
}  // namespace

const OpDef kSquaredError{
    .name = "squared_error",
    .doc =
        "Per-sample weights * sum of (prediction - target)^2 over all dimensions but the first. Weight 0: "
        "loss 0.",
    .family = "nn",
    .num_inputs = 3,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = sample_layout};

}  // namespace trireme::op
