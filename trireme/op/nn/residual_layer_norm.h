// residual_layer_norm: what a branch gives is added to the residual stream, and the sum is normalised.
//   (x, branch, shift, scale, bias) -> y, mean, var of layer_norm(sum, scale, bias), and
//   sum = x + (branch + shift), shift along the normalised dimensions
#pragma once

#include "trireme/op/op.h"

namespace trireme::op {

// Made by the pass `join_residuals` only, hence not among those of ops.h.
extern const OpDef kResidualLayerNorm;

}  // namespace trireme::op
