// fused_bias_grad: a fused group over the rows of a matrix, and the gradient of a bias that is made of its
// result.
#pragma once

#include "trireme/op/op.h"

namespace trireme::op {

// Made by the pass `join_bias_grads` only, hence not among those of ops.h.
extern const OpDef kFusedBiasGrad;

}  // namespace trireme::op
