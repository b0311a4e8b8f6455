// An LSTM that keeps what its gradient needs, so that this does not go forward again.
//   lstm_kept       inputs of lstm -> (y, h_n, c_n, gates, cells)
//   lstm_kept_grad  (x, h0, w_ih, w_hh, y, gates, cells, dy, dh_n, dc_n) -> gradients of the inputs of lstm
// gates: [T,B,4 H], before the functions; cells: [T,B,H], the cell states before every step.
#pragma once

#include "trireme/op/op.h"

namespace trireme::op {

// Made by the pass `keep_gates` only, hence not among those of ops.h.
extern const OpDef kLstmKept, kLstmKeptGrad;

}  // namespace trireme::op
