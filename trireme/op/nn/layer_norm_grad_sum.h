// layer_norm_grad_sum: the gradient of a layer norm that stands beside a residual, and what is made of it.
//   (x, scale, mean, var, dy, other) -> dx + other, dscale, dbias, a copy of the sum in another dtype, and
//   what bias_grad makes of that copy
#pragma once

#include "trireme/op/op.h"

namespace trireme::op {

// Made by the pass `join_norm_sums` only, hence not among those of ops.h.
extern const OpDef kLayerNormGradSum;

}  // namespace trireme::op
