// Adam (Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015), as PyTorch defines it:
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//   w = w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps).
// The stored moments are raw; t counts from 1.
//   eps_hat          eps is added to the uncorrected root (the last paragraph of the paper's section 2)
//   amsgrad          the largest v so far stands for v (Reddi, Kale and Kumar, ICLR 2018, who correct no
//   bias) bias_correction  false: no division by 1 - beta^t
//   fixed_after      after so many steps v and its correction stay (1-bit Adam: Tang et al., ICML 2021)
#pragma once

#include "trireme/op/update/update.h"

namespace trireme::op::detail {

// `decay` is the default of weight_decay.
std::vector<AttrSpec> adam_attrs(double decay, std::string_view decay_doc);
// What step t does to second moments: the share of v that is kept, and the root of 1 - beta2^t.
struct SecondMoment {
  double kept, root_bias;
};
SecondMoment second_moment(const Attrs& attrs, double t);
// Inputs: param, moment1, moment2, max_moment2, grad, lr, step.
Types infer_adam(TypeSpan in, const Attrs& attrs);
// shrink: what the parameter is multiplied with first (1: nothing); weight_decay w is added to the gradient.
void run_adam(KernelArgs& a, double shrink, double weight_decay);
// decay_flops per element on top of Adam's own.
cost::OpCost adam_cost(TypeSpan in, TypeSpan out, const Attrs& attrs, double decay_flops);

}  // namespace trireme::op::detail
