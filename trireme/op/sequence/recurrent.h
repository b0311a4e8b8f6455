// What rnn, lstm and gru share: one layer, one direction, over a sequence.
//
// Inputs: x [T,B,I], h0 [B,H], (lstm: c0 [B,H],) w_ih [G H,I], w_hh [G H,H], b_ih [G H], b_hh [G H], G gates.
// Outputs: y [T,B,H], all states; h_n [B,H], the last one (h0 where T = 0); lstm: c_n [B,H].
//   <cell>            (inputs) -> outputs
//   <cell>_grad       (inputs, gradients of the outputs) -> gradients of the inputs; makes the states again
//   <cell>_grad_grad  (inputs, gradients of the outputs, u) -> gradients of <u, <cell>_grad> for inputs and
//                     gradients of the outputs (dual.h)
#pragma once

#include "trireme/op/detail/infer.h"
#include "trireme/op/sequence/dual.h"

namespace trireme::op::detail {

// The part of a kind of cell that does not depend on numbers.
struct CellKind {
  int gates;
  bool has_cell;
  Tally step, back;
  int num_inputs() const { return has_cell ? 7 : 6; }
  int num_outputs() const { return has_cell ? 3 : 2; }
};
template <typename Cell>
CellKind kind_of() {
  return {Cell::kGates, Cell::kHasCell, Cell::step_tally(), Cell::back_tally()};
}

// Which of the three ops.
enum class Pass { kForward, kGrad, kGradGrad };

Types infer_recurrent(const CellKind& kind, Pass pass, TypeSpan in);
cost::OpCost recurrent_cost(const CellKind& kind, Pass pass, TypeSpan in, TypeSpan out);
// The batch; gradients of weights must then be added.
std::vector<LayoutOption> recurrent_layout(const CellKind& kind, Pass pass);
// Gradients of a node of the forward or of the first gradient op, by `next`, the op after it.
Result<Grads> recurrent_grad(GradBuilder& g, const CellKind& kind, Pass pass, const OpDef& next);

}  // namespace trireme::op::detail
