// Ops that write variables.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {
using enum Fill;

// param, `states` (a state of no elements where the flag is false), grad, lr.
std::vector<Input> step_inputs(const Shape& shape, const std::vector<bool>& states) {
  std::vector<Input> in{{kReal, shape}};
  for (const bool used : states) in.push_back({kPositive, used ? shape : Shape{0}});
  in.push_back({kReal, shape});
  in.push_back({kPositive, {}});
  return in;
}
std::vector<Input> counted(std::vector<Input> in) {
  in.push_back({kLabels, {}});
  return in;
}

void add_momentum(std::vector<OpCase>& t) {
  const Attrs decay = one("weight_decay", 0.1);
  t.push_back({&kApplySgd, "plain", step_inputs({3, 4}, {})});
  t.push_back({&kApplySgd, "decay", step_inputs({5}, {}), decay});
  t.push_back({&kApplySgd, "scalar", step_inputs({}, {})});
  t.push_back({&kApplySgd, "empty", step_inputs({0, 3}, {})});
  t.push_back({&kApplyMomentum, "plain", step_inputs({3, 4}, {true})});
  t.push_back({&kApplyMomentum,
               "nesterov decay",
               step_inputs({5}, {true}),
               {{"momentum", 0.8}, {"weight_decay", 0.1}, {"nesterov", true}}});
  t.push_back({&kApplyMomentum, "dampening", step_inputs({2, 3}, {true}), one("dampening", 0.3)});
  t.push_back({&kApplyMomentum, "rate inside", step_inputs({2, 3}, {true}), one("rate_inside", true)});
  t.push_back({&kApplyMomentum,
               "rate inside nesterov",
               step_inputs({2, 3}, {true}),
               {{"rate_inside", true}, {"nesterov", true}}});
  t.push_back({&kApplyMomentum, "empty", step_inputs({0}, {true})});
  t.push_back({&kApplyLars, "plain", step_inputs({3, 4}, {true})});
  t.push_back({&kApplyLars,
               "decay",
               step_inputs({5}, {true}),
               {{"weight_decay", 0.1}, {"trust", 0.1}, {"eps", 0.1}}});
  t.push_back({&kApplyLars, "scalar", step_inputs({}, {true})});
  t.push_back({&kApplyLars, "empty", step_inputs({0}, {true})});
}

void add_adaptive(std::vector<OpCase>& t) {
  const Attrs decay = one("weight_decay", 0.1);
  t.push_back({&kApplyAdagrad, "plain", counted(step_inputs({3, 4}, {true}))});
  t.push_back({&kApplyAdagrad,
               "options",
               counted(step_inputs({5}, {true})),
               {{"weight_decay", 0.1}, {"lr_decay", 0.5}, {"eps", 0.1}, {"eps_inside", true}}});
  t.push_back({&kApplyAdagrad, "empty", counted(step_inputs({2, 0}, {true}))});
  t.push_back({&kApplyRmsprop, "plain", step_inputs({3, 4}, {true, false, false})});
  t.push_back({&kApplyRmsprop,
               "momentum decay",
               step_inputs({5}, {true, false, true}),
               {{"weight_decay", 0.1}, {"momentum", 0.9}, {"alpha", 0.5}}});
  t.push_back(
      {&kApplyRmsprop,
       "centered inside",
       step_inputs({2, 3}, {true, true, true}),
       {{"centered", true}, {"momentum", 0.5}, {"eps", 0.1}, {"eps_inside", true}, {"rate_inside", true}}});
  t.push_back({&kApplyRmsprop,
               "centered",
               step_inputs({3}, {true, true, false}),
               {{"centered", true}, {"eps", 0.1}, {"alpha", 0.3}}});
  t.push_back({&kApplyRmsprop, "empty", step_inputs({0, 2}, {true, false, false})});
  for (const OpDef* d : {&kApplyAdam, &kApplyAdamw}) {
    t.push_back({d, "plain", counted(step_inputs({3, 4}, {true, true, false}))});
    t.push_back({d, "decay", counted(step_inputs({5}, {true, true, false})), decay});
    t.push_back({d, "no decay", counted(step_inputs({}, {true, true, false})), one("weight_decay", 0.0)});
    t.push_back({d, "amsgrad", counted(step_inputs({2, 3}, {true, true, true})), one("amsgrad", true)});
    t.push_back({d, "eps hat", counted(step_inputs({2, 3}, {true, true, false})), one("eps_hat", true)});
    t.push_back({d, "raw", counted(step_inputs({2}, {true, true, false})), one("bias_correction", false)});
    t.push_back(
        {d, "fixed", counted(step_inputs({2}, {true, true, false})), one("fixed_after", std::int64_t{1})});
    t.push_back({d, "empty", counted(step_inputs({0}, {true, true, false}))});
  }
  t.push_back({&kApplyAdamw, "decay of its own", counted(step_inputs({5}, {true, true, false})),
               one("decay_by_lr", false)});
}
}  // namespace

void add_update(std::vector<OpCase>& t) {
  add_momentum(t);
  add_adaptive(t);
  t.push_back({&kAllFinite, "one", {{kReal, {3, 4}}}});
  t.push_back({&kAllFinite, "several", {{kReal, {3, 4}}, {kReal, {}}, {kReal, {0, 2}}}});
  t.push_back({&kAllFinite, "empty", {{kReal, {0}}}});
  OpCase scale{&kUpdateLossScale, "scale", {{kPositive, {}}, {kLabels, {}}, {kBools, {}}}};
  scale.skips_work = true;  // most steps leave the scale alone
  t.push_back(scale);
  scale.note = "every step";
  scale.attrs = one("interval", std::int64_t{1});
  t.push_back(scale);
  for (const OpDef* d : {&kAssign, &kAssignAdd}) {
    t.push_back({d, "matrix", {{kReal, {3, 4}}, {kReal, {3, 4}}}});
    t.push_back({d, "integers", {{kInts, {}}, {kInts, {}}}});
    t.push_back({d, "empty", {{kReal, {0}}, {kReal, {0}}}});
  }
}

}  // namespace trireme::op::testing
