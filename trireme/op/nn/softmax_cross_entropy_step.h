// softmax_cross_entropy_step: what a training step wants of the logits, from one pass over them.
//   (logits, labels, weights, dlosses) -> dlogits, losses, correct
// The results of softmax_cross_entropy_grad, softmax_cross_entropy and correct; dlogits may take the place of
// the logits.
#pragma once

#include "trireme/op/op.h"

namespace trireme::op {

// Made by the pass `join_losses` only, hence not among those of ops.h.
extern const OpDef kSoftmaxCrossEntropyStep;

}  // namespace trireme::op
