// Stochastic gradient descent with momentum, as PyTorch defines it (the learning rate is outside the
// velocity):
//   g' = g + weight_decay w;  v = momentum v + (1 - dampening) g';  w = w - lr v, or w - lr (g' + momentum v)
//   with nesterov.
// PyTorch does not dampen the very first gradient; to follow it there, start with v = dampening g' /
// momentum.
//
// With rate_inside the velocity is a displacement, as in Polyak and in Sutskever et al., "On the importance
// of initialization and momentum in deep learning", 2013:
//   v = momentum v + lr (1 - dampening) g';  w = w - v.
// Their Nesterov form, v' = momentum v - lr grad(w + momentum v); w' = w + v', is followed at the point
// w + momentum v, where the gradient is taken: w = w - (lr g' + momentum v).
#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_not_negative(attrs, {"momentum", "weight_decay"}));
  const double dampening = attrs.get_float("dampening");
  if (!(dampening >= 0 && dampening <= 1))
    return error(Code::kInvalid, "attribute 'dampening': got {}, expected a value in [0, 1]", dampening);
  if (dampening != 0 && attrs.get_bool("nesterov"))
    return error(Code::kInvalid, "attribute 'dampening': got {} with nesterov, expected 0", dampening);
  return infer_update(in, {{"velocity"}});
}

void run(KernelArgs& a) {
  const double weight_decay = a.attrs.get_float("weight_decay"), dampening = a.attrs.get_float("dampening");
  const bool nesterov = a.attrs.get_bool("nesterov"), rate_inside = a.attrs.get_bool("rate_inside");
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const A lr = static_cast<A>(rate_of(a.in(3)));
    const A momentum = static_cast<A>(a.attrs.get_float("momentum"));
    const A decay = static_cast<A>(weight_decay), undamped = static_cast<A>(1 - dampening);
    update_together<T, 3>(a, [&](const auto& at) {
      const A w = *at[0];
      A g = *at[2];
      if (weight_decay != 0) g += decay * w;
      if (rate_inside) g *= lr;
      const A pull = dampening != 0 ? undamped * g : g;
      const A v = momentum * static_cast<A>(*at[1]) + pull;
      *at[1] = static_cast<T>(v);
      const A move = nesterov ? g + momentum * v : v;
      *at[0] = static_cast<T>(rate_inside ? w - move : w - lr * move);
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  double flops = 4;
  if (attrs.get_float("weight_decay") != 0) flops += 2;
  if (attrs.get_float("dampening") != 0) flops += 1;
  if (attrs.get_bool("nesterov")) flops += 2;
  return update_cost(in, out, flops, 1);
}
}  // namespace

const OpDef kApplyMomentum{
    .name = "apply_momentum",
    .doc = "SGD with momentum, in place, from (param, velocity, grad, lr): v = mu v + g; w -= lr v.",
    .family = "update",
    .num_inputs = 4,
    .attrs = {{"momentum", 0.9, "momentum coefficient"},
              {"weight_decay", 0.0, "L2 penalty added to the gradient"},
              {"nesterov", false, "step along g + momentum v"},
              {"dampening", 0.0, "the velocity gets 1 - dampening times the gradient"},
              {"rate_inside", false, "v = mu v + lr g; w -= v"}},
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = update_layout,
    .traits = kMutates | kStateful,
    .mutated_inputs = {0, 1}};

}  // namespace trireme::op
