// Layer-wise adaptive rate scaling (You, Gitman and Ginsburg, "Large batch training of convolutional
// networks", 2017, algorithm 1), one tensor being one layer:
//   local = trust |w| / (|g| + weight_decay |w| + eps), or 1 where |w| or |g| is 0;
//   v = momentum v + lr local (g + weight_decay w);  w = w - v.
// The norms are taken over the whole tensor, so it cannot be cut; pieces of one are updated by a rate from
// outside (model::TensorRate).
#include <cmath>

#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_not_negative(attrs, {"momentum", "weight_decay", "trust", "eps"}));
  return infer_update(in, {{"velocity"}});
}

double local_rate(const Attrs& attrs, double weight_norm, double grad_norm) {
  if (weight_norm == 0 || grad_norm == 0) return 1;
  const double decayed = attrs.get_float("weight_decay") * weight_norm;
  return attrs.get_float("trust") * weight_norm / (grad_norm + decayed + attrs.get_float("eps"));
}

void run(KernelArgs& a) {
  const double weight_decay = a.attrs.get_float("weight_decay");
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    A weights = 0, grads = 0;
    update_together<T, 3>(a, [&](const auto& at) {
      const A w = *at[0], g = *at[2];
      weights += w * w;
      grads += g * g;
    });
    const double local =
        local_rate(a.attrs, std::sqrt(static_cast<double>(weights)), std::sqrt(static_cast<double>(grads)));
    const A rate = static_cast<A>(rate_of(a.in(3)) * local), decay = static_cast<A>(weight_decay);
    const A momentum = static_cast<A>(a.attrs.get_float("momentum"));
    update_together<T, 3>(a, [&](const auto& at) {
      const A w = *at[0];
      A g = *at[2];
      if (weight_decay != 0) g += decay * w;
      const A v = momentum * static_cast<A>(*at[1]) + rate * g;
      *at[1] = static_cast<T>(v);
      *at[0] = static_cast<T>(w - v);
    });
  });
}

// The norms are folds; then every element is on its own.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost cost = update_cost(in, out, attrs.get_float("weight_decay") != 0 ? 10 : 8, 1);
  if (elems(in[0]) > 0) cost.depth += log_depth(elems(in[0]));
  return cost;
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) { return {}; }
}  // namespace

const OpDef kApplyLars{.name = "apply_lars",
                       .doc = "Momentum with a rate per tensor, in place, from (param, velocity, grad, lr).",
                       .family = "update",
                       .num_inputs = 4,
                       .attrs = {{"momentum", 0.9, "momentum coefficient"},
                                 {"weight_decay", 0.0, "L2 penalty added to the gradient"},
                                 {"trust", 0.001, "rate of a tensor whose gradient is as long as itself"},
                                 {"eps", 0.0, "added to the length of the gradient"}},
                       .infer = infer,
                       .reference = run,
                       .cost = cost,
                       .layout = layout,
                       .traits = kMutates | kStateful,
                       .mutated_inputs = {0, 1}};

}  // namespace trireme::op
