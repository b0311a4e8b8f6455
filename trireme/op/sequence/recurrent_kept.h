// A layer of recurrence that keeps bytes of its kernel's own for its gradient, so that this need not go
// forward again.
//   recurrent_kept       inputs of rnn, lstm or gru -> (outputs of it, kept)
//   recurrent_kept_grad  (its inputs, y, kept, gradients of its outputs) -> gradients of its inputs
// kept: `bytes` bytes whose meaning is the kernels'. With none the gradient goes forward again, as the
// references always do.
#pragma once

#include "trireme/op/op.h"

namespace trireme::op {

// Made by the pass `keep_reserves` only, hence not among those of ops.h.
extern const OpDef kRecurrentKept, kRecurrentKeptGrad;

struct KeptCell {
  std::string_view name;  // attribute `cell`
  const OpDef *forward, *grad;
  Attrs attrs;  // of both
};
// The cell of such a node, or of a node of rnn, lstm or gru.
KeptCell kept_cell(std::string_view cell);
std::string_view kept_cell_name(const OpDef& forward, const Attrs& attrs);

}  // namespace trireme::op
