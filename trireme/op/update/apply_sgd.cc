// Plain stochastic gradient descent: w = w - lr (g + weight_decay w).
#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_not_negative(attrs, {"weight_decay"}));
  return infer_update(in, {});
}

void run(KernelArgs& a) {
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const double weight_decay = a.attrs.get_float("weight_decay");
    const A lr = static_cast<A>(rate_of(a.in(2))), decay = static_cast<A>(weight_decay);
    if (weight_decay == 0) {
      update<T>(a.in(0), a.in(1), [lr](A w, A g) { return static_cast<T>(w - lr * g); });
    } else {
      update<T>(a.in(0), a.in(1), [lr, decay](A w, A g) { return static_cast<T>(w - lr * (g + decay * w)); });
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return update_cost(in, out, attrs.get_float("weight_decay") == 0 ? 2 : 4, 0);
}
}  // namespace

const OpDef kApplySgd{.name = "apply_sgd",
                      .doc = "w -= lr (g + weight_decay w), in place, from (param, grad, lr).",
                      .family = "update",
                      .num_inputs = 3,
                      .attrs = {{"weight_decay", 0.0, "L2 penalty added to the gradient"}},
                      .infer = infer,
                      .reference = run,
                      .cost = cost,
                      .layout = update_layout,
                      .traits = kMutates | kStateful,
                      .mutated_inputs = {0}};

}  // namespace trireme::op
