// Adam with an L2 penalty: weight_decay w is part of the gradient. The formula is in adam.h.
#include "trireme/op/ops.h"
#include "trireme/op/update/adam.h"

namespace trireme::op {
namespace {
using namespace detail;

void run(KernelArgs& a) { run_adam(a, 1, a.attrs.get_float("weight_decay")); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return adam_cost(in, out, attrs, attrs.get_float("weight_decay") != 0 ? 2 : 0);
}
}  // namespace

const OpDef kApplyAdam{.name = "apply_adam",
                       .doc = "Adam, in place, from (param, moment1, moment2, max_moment2, grad, lr, step).",
                       .family = "update",
                       .num_inputs = 7,
                       .attrs = adam_attrs(0, "L2 penalty added to the gradient"),
                       .infer = infer_adam,
                       .reference = run,
                       .cost = cost,
                       .layout = update_layout,
                       .traits = kMutates | kStateful,
                       .mutated_inputs = {0, 1, 2, 3}};

}  // namespace trireme::op
