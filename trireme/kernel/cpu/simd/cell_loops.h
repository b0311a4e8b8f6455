// Units of one sample of a recurrent network at one step, forward and backward. Compiled and chosen like the
// loops of loops.h, with the same bits on every instruction set. Formulas and gate orders:
// op/sequence/cells.h.
//
// z has the gates before their functions, `units` values each, one gate after the other: W_ih x + b_ih + W_hh
// h + b_hh. gru keeps the second half of that sum apart, in zh; the others ignore zh.
#pragma once

#include <cstdint>

namespace trireme::kernel {

struct CellLoops {
  // States h and c before the step; new_h and new_c after it. new_c may be c.
  void (*step)(const float* z, const float* zh, const float* h, const float* c, float* new_h, float* new_c,
               std::int64_t units);
  // z and zh become their gradients. dh and dc come as the gradients of the states after the step, to which
  // dy is added, and leave as those of the states before it, but for what passes through W_hh.
  void (*back)(float* z, float* zh, const float* h, const float* c, const float* dy, float* dh, float* dc,
               std::int64_t units);
};
// 32 units of one sample of an lstm that keeps its gates and cell states in bf16; arithmetic is in f32. `n`
// of the units are real: no more are read or written in bf16, but of dz. Of the others everything is 0.
struct LowLstm {
  // z (and `bias`, which is added to it) has 32 values of each gate. Gates go to where they are kept,
  // `stride` apart, c to `cell` before the step, which puts the new ones in its place, and the new h to `h`.
  void (*step)(float* z, const float* bias, float* c, std::uint16_t* gates, std::int64_t stride,
               std::uint16_t* cell, std::uint16_t* h, std::int64_t n);
  // As back() of CellLoops from what was kept, dh and dc in f32. The gradients of the gates go to dz, `next`
  // apart, and are added to db.
  void (*back)(const std::uint16_t* gates, std::int64_t stride, const std::uint16_t* cell,
               const std::uint16_t* dy, float* dh, float* dc, std::uint16_t* dz, std::int64_t next, float* db,
               std::int64_t n);
};
struct CellSet {
  CellLoops rnn_tanh, rnn_relu, lstm, gru;
  LowLstm low_lstm;
};

// The fastest set for the instructions of this processor. Constant over the life of the process.
const CellSet& cell_loops();

}  // namespace trireme::kernel
