// Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR
// 2019), as PyTorch defines it: w = w (1 - lr weight_decay) first, then Adam's step on the plain gradient.
// The paper's decay is not multiplied with lr but with the schedule's factor alone: `decay_by_lr` false, and
// the factor is part of weight_decay. The formula of Adam is in adam.h.
#include "trireme/op/ops.h"
#include "trireme/op/update/adam.h"

namespace trireme::op {
namespace {
using namespace detail;

std::vector<AttrSpec> attrs() {
  auto all = adam_attrs(0.01, "decoupled weight decay per step, times lr");
  all.push_back({"decay_by_lr", true, "multiply weight_decay with lr"});
  return all;
}

void run(KernelArgs& a) {
  const double factor = a.attrs.get_bool("decay_by_lr") ? rate_of(a.in(5)) : 1;
  run_adam(a, 1 - factor * a.attrs.get_float("weight_decay"), 0);
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return adam_cost(in, out, attrs, attrs.get_float("weight_decay") != 0 ? 1 : 0);
}
}  // namespace

const OpDef kApplyAdamw{
    .name = "apply_adamw",
    .doc = "Adam with decoupled decay, in place: (param, moment1, moment2, max_moment2, grad, lr, step).",
    .family = "update",
    .num_inputs = 7,
    .attrs = attrs(),
    .infer = infer_adam,
    .reference = run,
    .cost = cost,
    .layout = update_layout,
    .traits = kMutates | kStateful,
    .mutated_inputs = {0, 1, 2, 3}};

}  // namespace trireme::op
