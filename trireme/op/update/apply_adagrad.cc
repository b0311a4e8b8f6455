// AdaGrad (Duchi, Hazan and Singer, "Adaptive subgradient methods", JMLR 2011), diagonal, as PyTorch defines
// it:
//   g' = g + weight_decay w;  s = s + g'^2;  w = w - lr / (1 + (t - 1) lr_decay) g' / (sqrt(s) + eps).
// Accumulators may start anywhere: the variable says where.
#include "trireme/op/detail/math.h"
#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_not_negative(attrs, {"eps", "lr_decay", "weight_decay"}));
  return infer_update(in, {{"sum"}});
}

void run(KernelArgs& a) {
  const double weight_decay = a.attrs.get_float("weight_decay");
  const double past = static_cast<double>(step_of(a.in(4)) - 1);
  const double rate = rate_of(a.in(3)) / (1 + past * a.attrs.get_float("lr_decay"));
  const bool eps_inside = a.attrs.get_bool("eps_inside");
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const A lr = static_cast<A>(rate), decay = static_cast<A>(weight_decay);
    const A eps = static_cast<A>(a.attrs.get_float("eps"));
    update_together<T, 3>(a, [&](const auto& at) {
      const A w = *at[0];
      A g = *at[2];
      if (weight_decay != 0) g += decay * w;
      const A sum = static_cast<A>(*at[1]) + g * g;
      *at[1] = static_cast<T>(sum);
      const A root = eps_inside ? math::sqrt(sum + eps) : math::sqrt(sum) + eps;
      *at[0] = static_cast<T>(w - lr * (g / root));
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return update_cost(in, out, attrs.get_float("weight_decay") != 0 ? 9 : 7, 1);
}
}  // namespace

const OpDef kApplyAdagrad{
    .name = "apply_adagrad",
    .doc = "AdaGrad, in place, from (param, sum, grad, lr, step): s += g^2; w -= lr g / (sqrt(s) + eps).",
    .family = "update",
    .num_inputs = 5,
    .attrs = {{"eps", 1e-10, "added to the root"},
              {"lr_decay", 0.0, "lr / (1 + (t - 1) lr_decay)"},
              {"weight_decay", 0.0, "L2 penalty added to the gradient"},
              {"eps_inside", false, "sqrt(s + eps) instead of sqrt(s) + eps"}},
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = update_layout,
    .traits = kMutates | kStateful,
    .mutated_inputs = {0, 1}};

}  // namespace trireme::op
