// CUDA texts of recurrent cells, for recurrent.cc. Formulas and gate orders: op/sequence/cells.h.
//
// T is the element type, A what is computed in. Gates of a step are [batch, gates * units] without biases: xi
// by x and hi by h for gru; for the others xi holds their sum and hi is not read.
#pragma once

#include <string>

namespace trireme::kernel::cuda {

// Comes before the others. `cell`: kTanh, kRelu, kLstm, kGru.
std::string cell_constants(const char* type, const char* cell, int gates);
// cell_step(xi, hi, b_ih, b_hh, h, c, next_h, next_c, y, last_h, last_c, batch, units): null where a result
// is not wanted or is there already; c and next_c may be the same.
const char* step_text();
// cell_back(xi, hi, b_ih, b_hh, h, c, dy, dh, dc, dxi, dhi, batch, units): dh and dc come as gradients of the
// states after the step and leave as those before it, without what passes through hi; dxi and dhi are the
// gradients of xi and hi and may lie in their place.
const char* back_text();
// sum_rows(from, to, rows, columns): to [columns] in T; 32 x 32 threads for 32 columns.
const char* sums_text();
// widen(from, to, n): T to A; narrow: A to T.
const char* convert_text();

}  // namespace trireme::kernel::cuda
