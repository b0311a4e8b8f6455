// gelu_grad: the gradient of gelu in one op, where an expression of many is no faster.
#pragma once

#include "trireme/op/op.h"

namespace trireme::op {

// Made by the pass `join_gelu_grads` only, hence not among those of ops.h.
extern const OpDef kGeluGrad;

}  // namespace trireme::op
