// RMSProp (Tieleman and Hinton, lecture 6.5 of "Neural networks for machine learning", 2012), as PyTorch
// defines it:
//   g' = g + weight_decay w;  s = alpha s + (1 - alpha) g'^2;
//   centered: m = alpha m + (1 - alpha) g', and s - m^2 stands for s below (at least 0);
//   u = g' / (sqrt(s) + eps);  momentum 0: w = w - lr u;  else v = momentum v + u, w = w - lr v.
// Graves, "Generating sequences with recurrent neural networks", 2013, has eps_inside and rate_inside:
//   v = momentum v + lr u;  w = w - v.
#include <algorithm>

#include "trireme/op/detail/math.h"
#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_not_negative(attrs, {"eps", "weight_decay", "momentum"}));
  TR_RETURN_IF_ERROR(expect_share(attrs, {"alpha"}));
  return infer_update(in, {{"square_avg"},
                           {"grad_avg", attrs.get_bool("centered")},
                           {"velocity", attrs.get_float("momentum") != 0}});
}

void run(KernelArgs& a) {
  const double weight_decay = a.attrs.get_float("weight_decay"), momentum = a.attrs.get_float("momentum");
  const bool centered = a.attrs.get_bool("centered"), eps_inside = a.attrs.get_bool("eps_inside");
  const bool rate_inside = a.attrs.get_bool("rate_inside");
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const A lr = static_cast<A>(rate_of(a.in(5))), decay = static_cast<A>(weight_decay);
    const A alpha = static_cast<A>(a.attrs.get_float("alpha"));
    const A rest = static_cast<A>(1 - a.attrs.get_float("alpha"));
    const A eps = static_cast<A>(a.attrs.get_float("eps")), mu = static_cast<A>(momentum);
    update_together<T, 5>(a, [&](const auto& at) {
      const A w = *at[0];
      A g = *at[4];
      if (weight_decay != 0) g += decay * w;
      A square = alpha * static_cast<A>(*at[1]) + rest * g * g;
      *at[1] = static_cast<T>(square);
      if (centered) {
        const A old = *at[2];
        const A mean = old + rest * (g - old);
        *at[2] = static_cast<T>(mean);
        square = std::max(square - mean * mean, A(0));
      }
      A move = g / (eps_inside ? math::sqrt(square + eps) : math::sqrt(square) + eps);
      if (momentum == 0) {
        *at[0] = static_cast<T>(w - lr * move);
        return;
      }
      if (rate_inside) move *= lr;
      const A v = mu * static_cast<A>(*at[3]) + move;
      *at[3] = static_cast<T>(v);
      *at[0] = static_cast<T>(rate_inside ? w - v : w - lr * v);
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  double flops = 9;
  if (attrs.get_float("weight_decay") != 0) flops += 2;
  if (attrs.get_bool("centered")) flops += 6;
  if (attrs.get_float("momentum") != 0) flops += 2;
  return update_cost(in, out, flops, 3);
}
}  // namespace

const OpDef kApplyRmsprop{
    .name = "apply_rmsprop",
    .doc = "RMSProp, in place, from (param, square_avg, grad_avg, velocity, grad, lr).",
    .family = "update",
    .num_inputs = 6,
    .attrs = {{"alpha", 0.99, "decay rate of the averages"},
              {"eps", 1e-8, "added to the root"},
              {"weight_decay", 0.0, "L2 penalty added to the gradient"},
              {"momentum", 0.0, "momentum coefficient; 0: velocity has the shape [0]"},
              {"centered", false, "divide by the deviation; false: grad_avg has the shape [0]"},
              {"eps_inside", false, "sqrt(s + eps) instead of sqrt(s) + eps"},
              {"rate_inside", false, "v = mu v + lr u; w -= v"}},
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = update_layout,
    .traits = kMutates | kStateful,
    .mutated_inputs = {0, 1, 2, 3}};

}  // namespace trireme::op
