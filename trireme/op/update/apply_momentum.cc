// Stochastic gradient descent with momentum, as PyTorch defines it (the learning rate is outside the
// velocity):
//   g' = g + weight_decay w;  v = momentum v + g';  w = w - lr v, or w - lr (g' + momentum v) with nesterov.
#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("param", in[0]));
  TR_RETURN_IF_ERROR(expect_type("velocity", in[1], in[0]));
  TR_RETURN_IF_ERROR(expect_type("grad", in[2], in[0]));
  TR_RETURN_IF_ERROR(expect_type("lr", in[3], {in[0].dtype, {}}));
  TR_RETURN_IF_ERROR(expect_not_negative("momentum", attrs.get_float("momentum")));
  TR_RETURN_IF_ERROR(expect_not_negative("weight_decay", attrs.get_float("weight_decay")));
  return std::vector{in[0]};
}

void run(KernelArgs& a) {
  const Tensor &param = a.in(0), &velocity = a.in(1), &grad = a.in(2);
  const double weight_decay = a.attrs.get_float("weight_decay");
  const bool nesterov = a.attrs.get_bool("nesterov");
  dispatch_float(param.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const A lr = a.in(3).data<T>()[0];
    const A momentum = static_cast<A>(a.attrs.get_float("momentum"));
    const A decay = static_cast<A>(weight_decay);
    T *ws = param.data<T>(), *vs = velocity.data<T>();
    const T* gs = grad.data<T>();
    walk_rows<3>(param.shape(), {param.strides(), velocity.strides(), grad.strides()},
                 [&](const auto& offset, const auto& stride, std::int64_t n) {
                   for (std::int64_t i = 0; i < n; ++i) {
                     T& param_i = ws[offset[0] + i * stride[0]];
                     T& velocity_i = vs[offset[1] + i * stride[1]];
                     const A w = param_i;
                     A g = gs[offset[2] + i * stride[2]];
                     if (weight_decay != 0) g += decay * w;
                     const A v = momentum * static_cast<A>(velocity_i) + g;
                     velocity_i = static_cast<T>(v);
                     param_i = static_cast<T>(w - lr * (nesterov ? g + momentum * v : v));
                   }
                 });
  });
}

// The velocity is written too.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  return {.flops = 8 * elems(in[0]), .bytes = io_bytes(in, out) + static_cast<double>(in[1].num_bytes())};
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) { return update_layout(in, 1); }
}  // namespace

const OpDef kApplyMomentum{
    .name = "apply_momentum",
    .doc = "SGD with momentum, in place, from (param, velocity, grad, lr): v = mu v + g; w -= lr v.",
    .family = "update",
    .num_inputs = 4,
    .attrs = {{"momentum", 0.9, "share of the velocity that is kept"},
              {"weight_decay", 0.0, "L2 penalty added to the gradient"},
              {"nesterov", false, "step along g + momentum v"}},
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .traits = kMutates | kStateful,
    .mutated_inputs = {0, 1}};

}  // namespace trireme::op
