// Batch normalisation with given statistics, after training.
#include "trireme/op/detail/math.h"
#include "trireme/op/nn/expr.h"
#include "trireme/op/nn/norm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  if (in[0].shape.rank() < 2)
    return error(Code::kInvalid, "x: got {}, expected at least 2 dimensions", in[0].to_string());
  TR_RETURN_IF_ERROR(expect_eps(attrs));
  const TensorType params{in[0].dtype, {in[0].shape[1]}};
  TR_RETURN_IF_ERROR(expect_type("scale", in[1], params));
  TR_RETURN_IF_ERROR(expect_type("bias", in[2], params));
  TR_RETURN_IF_ERROR(expect_type("mean", in[3], params));
  TR_RETURN_IF_ERROR(expect_type("var", in[4], params));
  return std::vector{in[0]};
}

// With inv = 1 / sqrt(var + eps) and sums over all dimensions but 1: dx = dy scale inv, dscale = sum of
// dy (x - mean) inv, dbias = sum of dy, dmean = -scale inv dbias, dvar = -scale inv^3 / 2 sum of dy (x -
// mean).
Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0), scale = g.input(1), mean = g.input(3), dy = g.grad_output(0);
  const Shape column = batch_view(g.type(x).shape).scale_column();
  const Value inv = inverse_root(g, g.input(4), g.attrs().get_float("eps"));
  const Value gain = g.mul(scale, inv);
  const Value dbias = g.add(kBiasGrad, {dy});
  const Value dot = g.add(kBiasGrad, {g.mul(dy, g.sub(x, shaped(g, mean, column)))});
  Grads grads{g.mul(dy, shaped(g, gain, column)), g.mul(dot, inv), dbias, g.neg(g.mul(gain, dbias)),
              g.scale(g.mul(g.mul(gain, g.mul(inv, inv)), dot), -0.5)};
  for (int i = 0; i < 5; ++i) {
    if (!g.needs_grad(i)) grads[idx(i)] = {};
  }
  return grads;
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  const std::int64_t channels = x.shape()[1];
  dispatch_float(x.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const A eps = static_cast<A>(a.attrs.get_float("eps"));
    const auto param = [&](int i, std::int64_t c) {
      return static_cast<A>(a.in(i).data<T>()[c * a.in(i).strides()[0]]);
    };
    for (std::int64_t c = 0; c < channels; ++c) {
      const A mean = param(3, c), bias = param(2, c), gain = param(1, c) / math::sqrt(param(4, c) + eps);
      const T* xs = x.data<T>() + c * x.strides()[1];
      T* ys = y.data<T>() + c * y.strides()[1];
      Shape plane = x.shape();
      plane.set(1, 1);
      walk_rows<2>(plane, {x.strides(), y.strides()},
                   [&](const auto& offset, const auto& stride, std::int64_t n) {
                     for (std::int64_t i = 0; i < n; ++i) {
                       const A v = xs[offset[0] + i * stride[0]];
                       ys[offset[1] + i * stride[1]] = static_cast<T>((v - mean) * gain + bias);
                     }
                   });
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  const double n = elems(in[0]), flops = 3 * n + 3 * elems(in[1]);
  return {.flops = flops, .bytes = io_bytes(in, out), .work = flops, .depth = n > 0 ? 6.0 : 0};
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank(); ++d) {
    const int own = d == 1 ? 0 : kReplicate;
    options.push_back({{d, own, own, own, own}, {d}});
  }
  return options;
}
}  // namespace

const OpDef kBatchNormInference{
    .name = "batch_norm_inference",
    .doc = "(x - mean) / sqrt(var + eps) * scale + bias with given mean and var per channel of x [N,C,...].",
    .family = "nn",
    .num_inputs = 5,
    .attrs = {eps_attr()},
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .traits = kInPlaceOk};

}  // namespace trireme::op
