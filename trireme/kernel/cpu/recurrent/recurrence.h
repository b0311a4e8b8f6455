// What the kernels of rnn, lstm and gru and of their gradients share. Products over all steps at once where
// there is no recurrence, one product per step where there is. Slices of the batch go through the steps on
// their own; where these would be thin every step is cut over the gates instead, so that a thread keeps its
// part of W_hh in its cache. W_hh is transposed once: libraries multiply few rows by a transposed matrix at
// half their speed.
//   forward   Z = b + X W_ih^T;  for t: Z_t += h W_hh^T, h = cell(Z_t)            (gru keeps both sums)
//   backward  for t from the last: dZ_t = cell'(Z_t), dh += dZ_t W_hh
//             dX = dZ W_ih;  dW_ih = dZ^T X;  dW_hh = dZ^T H;  db = column sums of dZ
#pragma once

#include <algorithm>

#include "trireme/kernel/cpu/matmul/gemm.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/recurrent/workspace_arrays.h"
#include "trireme/kernel/cpu/simd/cell_loops.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel::recurrence {

enum class Cell { kRnn, kLstm, kGru };

struct RecurrenceSizes {
  std::int64_t steps, batch, size, units, gates;  // gates: values per sample and step
  bool has_cell, splits;                          // splits: zh apart from z

  RecurrenceSizes(Cell cell, const Shape& x, const Shape& h0)
      : steps(x[0]),
        batch(x[1]),
        size(x[2]),
        units(h0[1]),
        gates(h0[1] * (cell == Cell::kLstm  ? 4
                       : cell == Cell::kGru ? 3
                                            : 1)),
        has_cell(cell == Cell::kLstm),
        splits(cell == Cell::kGru) {}

  std::int64_t state() const { return batch * units; }
  std::int64_t rows() const { return steps * batch; }
  std::int64_t work() const { return rows() * gates * (size + units) / 32; }  // as in matmul.cc
  int slices(std::int64_t items, int width) const { return num_slices(items, work(), width); }
  // How the product of one step is cut.
  int step_slices(std::int64_t items, int width) const {
    return num_slices(items, batch * gates * units / 32, width);
  }
  bool by_samples(int width) const {
    constexpr std::int64_t kThin = 8;
    return batch >= kThin * width || step_slices(gates, width) <= 2;
  }
};

inline const CellLoops& loops_of(Cell cell, const op::Attrs& attrs) {
  const CellSet& set = cell_loops();
  if (cell == Cell::kLstm) return set.lstm;
  if (cell == Cell::kGru) return set.gru;
  return attrs.get_text("nonlinearity") == "relu" ? set.rnn_relu : set.rnn_tanh;
}

struct RecurrentWeights {
  const float *w_ih, *w_hh, *b_ih, *b_hh;
};

struct RecurrenceBuffers {
  float* w_hh;            // turn_weights
  float *z, *zh, *h, *c;  // h and c before every step and after the last
  RecurrenceBuffers(const RecurrenceSizes& s, bool backward, WorkspaceArrays& arrays)
      : w_hh(arrays.take(s.gates * s.units)),
        z(arrays.take(s.rows() * s.gates)),
        zh(s.splits ? arrays.take(s.rows() * s.gates) : z),
        h(backward ? arrays.take((s.steps + 1) * s.state()) : nullptr),
        c(backward && s.has_cell ? arrays.take((s.steps + 1) * s.state()) : nullptr) {}
  // Gates elsewhere, no states.
  RecurrenceBuffers(float* transposed, float* gates)
      : w_hh(transposed), z(gates), zh(gates), h(nullptr), c(nullptr) {}
};

// The rows of the result are cut over slices.
inline void multiply(op::Parallel& parallel, const RecurrenceSizes& s, const Gemm& whole) {
  for_slices(parallel, whole.m, s.slices(whole.m / 16, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               Gemm part = whole;
               part.m = end - begin;
               part.a += whole.transpose_a ? begin : begin * whole.lda;
               part.c += begin * whole.ldc;
               gemm(part);
             });
}

struct Range {
  std::int64_t begin, end;
};

// Calls fn(Range) over slices of [0, n), which begin at whole cache lines.
template <typename Fn>
inline void for_lines(op::Parallel& parallel, const RecurrenceSizes& s, std::int64_t n, const Fn& fn) {
  constexpr std::int64_t kLine = 16;
  const std::int64_t lines = (n + kLine - 1) / kLine;
  for_slices(parallel, lines, s.step_slices(lines, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               const Range range{begin * kLine, std::min(end * kLine, n)};
               if (range.begin < range.end) fn(range);
             });
}

// to [columns, rows] = from [rows, columns] in tiles, for columns [begin, end).
inline void transpose(const float* from, std::int64_t rows, std::int64_t columns, Range range, float* to) {
  constexpr std::int64_t kTile = 16;
  for (std::int64_t i = 0; i < rows; i += kTile)
    for (std::int64_t j = range.begin; j < range.end; ++j)
      for (std::int64_t k = i; k < std::min(i + kTile, rows); ++k) to[j * rows + k] = from[k * columns + j];
}

// W_hh^T as add_recurrent reads it: the columns of every slice of gates as a dense matrix. Libraries read
// rows that lie far apart at two thirds of their speed.
inline void turn_weights(op::Parallel& parallel, const RecurrenceSizes& s, const float* w_hh, float* to) {
  if (!s.by_samples(parallel.width())) {
    for_lines(parallel, s, s.gates, [&](Range gates) {
      transpose(w_hh + gates.begin * s.units, gates.end - gates.begin, s.units, {0, s.units},
                to + gates.begin * s.units);
    });
    return;
  }
  constexpr std::int64_t kLine = 16;
  for_slices(parallel, s.units, num_slices(s.units / kLine, s.gates * s.units, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               transpose(w_hh, s.gates, s.units, {begin, end}, to);
             });
}

// W_hh as back_recurrent reads it, likewise by slices of units; `to` is used where it is cut.
inline const float* cut_weights(op::Parallel& parallel, const RecurrenceSizes& s, const float* w_hh,
                                float* to) {
  if (s.by_samples(parallel.width())) return w_hh;
  for_lines(parallel, s, s.units, [&](Range units) {
    const std::int64_t n = units.end - units.begin;
    for (std::int64_t g = 0; g < s.gates; ++g)
      std::copy_n(w_hh + g * s.units + units.begin, n, to + units.begin * s.gates + g * n);
  });
  return to;
}

// Everything in z and zh that does not depend on the states.
inline void start_gates(op::Parallel& parallel, const RecurrenceSizes& s, const RecurrentWeights& w,
                        const float* x, const RecurrenceBuffers& to) {
  turn_weights(parallel, s, w.w_hh, to.w_hh);
  const VectorLoops& loops = vector_loops();
  for_slices(parallel, s.rows(), num_slices(s.rows(), s.rows() * s.gates, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t r = begin; r < end; ++r) {
                 float *z = to.z + r * s.gates, *zh = to.zh + r * s.gates;
                 if (s.splits) {
                   std::copy(w.b_ih, w.b_ih + s.gates, z);
                   std::copy(w.b_hh, w.b_hh + s.gates, zh);
                 } else {
                   loops.add(w.b_ih, w.b_hh, z, s.gates);
                 }
               }
             });
  multiply(parallel, s,
           {.transpose_b = true,
            .m = s.rows(),
            .n = s.gates,
            .k = s.size,
            .a = x,
            .lda = s.size,
            .b = w.w_ih,
            .ldb = s.size,
            .beta = 1,
            .c = to.z,
            .ldc = s.gates});
}

// Before and after a step, [batch, units] each; c and new_c are null where there is no cell state.
struct States {
  const float *h, *c;
  float *new_h, *new_c;
};

// zh of step t += h W_hh^T, for some samples and gates.
inline void add_recurrent(const RecurrenceSizes& s, const RecurrenceBuffers& to, std::int64_t t,
                          const float* h, Range samples, Range gates) {
  gemm({.m = samples.end - samples.begin,
        .n = gates.end - gates.begin,
        .k = s.units,
        .a = h + samples.begin * s.units,
        .lda = s.units,
        .b = to.w_hh + gates.begin * s.units,
        .ldb = gates.end - gates.begin,
        .beta = 1,
        .c = to.zh + (t * s.batch + samples.begin) * s.gates + gates.begin,
        .ldc = s.gates});
}

inline void run_cells(const RecurrenceSizes& s, const CellLoops& cell, const RecurrenceBuffers& to,
                      std::int64_t t, const States& at, Range samples) {
  for (std::int64_t b = samples.begin; b < samples.end; ++b) {
    const std::int64_t row = (t * s.batch + b) * s.gates, unit = b * s.units;
    cell.step(to.z + row, to.zh + row, at.h + unit, at.c == nullptr ? nullptr : at.c + unit, at.new_h + unit,
              at.new_c == nullptr ? nullptr : at.new_c + unit, s.units);
  }
}

// All steps in order; states_at(t) says where the states are.
template <typename StatesAt>
inline void go_forward(op::Parallel& parallel, const RecurrenceSizes& s, const CellLoops& cell,
                       const RecurrenceBuffers& to, const StatesAt& states_at) {
  const int samples = s.slices(s.batch, parallel.width());
  if (s.by_samples(parallel.width())) {
    for_slices(parallel, s.batch, samples, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t t = 0; t < s.steps; ++t) {
        const States at = states_at(t);
        add_recurrent(s, to, t, at.h, {begin, end}, {0, s.gates});
        run_cells(s, cell, to, t, at, {begin, end});
      }
    });
    return;
  }
  for (std::int64_t t = 0; t < s.steps; ++t) {
    const States at = states_at(t);
    for_lines(parallel, s, s.gates, [&](Range gates) { add_recurrent(s, to, t, at.h, {0, s.batch}, gates); });
    for_slices(parallel, s.batch, samples, [&](std::int64_t begin, std::int64_t end, int) {
      run_cells(s, cell, to, t, at, {begin, end});
    });
  }
}

// Where gradients go: z and zh become theirs; dh and dc, [batch, units], go from the last states to the
// first. h and c are the states before every step. Gates that are to stay as they are come as `kept`.
struct Back {
  float *z, *zh;
  const float *h, *c, *w_hh, *dy;
  float *dh, *dc;
  const float* kept = nullptr;
};

inline void back_cells(const RecurrenceSizes& s, const CellLoops& cell, const Back& to, std::int64_t t,
                       Range samples) {
  for (std::int64_t b = samples.begin; b < samples.end; ++b) {
    const std::int64_t row = t * s.batch + b, unit = b * s.units;
    if (to.kept != nullptr) std::copy_n(to.kept + row * s.gates, s.gates, to.z + row * s.gates);
    cell.back(to.z + row * s.gates, to.zh + row * s.gates, to.h == nullptr ? nullptr : to.h + row * s.units,
              to.c == nullptr ? nullptr : to.c + row * s.units, to.dy + row * s.units, to.dh + unit,
              to.dc == nullptr ? nullptr : to.dc + unit, s.units);
  }
}

// dh += dzh W_hh, for some samples and units.
inline void back_recurrent(const RecurrenceSizes& s, const Back& to, std::int64_t t, Range samples,
                           Range units) {
  gemm({.m = samples.end - samples.begin,
        .n = units.end - units.begin,
        .k = s.gates,
        .a = to.zh + (t * s.batch + samples.begin) * s.gates,
        .lda = s.gates,
        .b = to.w_hh + units.begin * s.gates,
        .ldb = units.end - units.begin,
        .beta = 1,
        .c = to.dh + samples.begin * s.units + units.begin,
        .ldc = s.units});
}

inline void go_back(op::Parallel& parallel, const RecurrenceSizes& s, const CellLoops& cell, const Back& to) {
  const int samples = s.slices(s.batch, parallel.width());
  if (s.by_samples(parallel.width())) {
    for_slices(parallel, s.batch, samples, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t t = s.steps - 1; t >= 0; --t) {
        back_cells(s, cell, to, t, {begin, end});
        back_recurrent(s, to, t, {begin, end}, {0, s.units});
      }
    });
    return;
  }
  for (std::int64_t t = s.steps - 1; t >= 0; --t) {
    for_slices(parallel, s.batch, samples, [&](std::int64_t begin, std::int64_t end, int) {
      back_cells(s, cell, to, t, {begin, end});
    });
    for_lines(parallel, s, s.units, [&](Range units) { back_recurrent(s, to, t, {0, s.batch}, units); });
  }
}

// dw [gates, n] = beta dw + dz^T in, in being [rows, n].
inline void weight_grad(op::Parallel& parallel, const RecurrenceSizes& s, const float* dz, const float* in,
                        std::int64_t rows, std::int64_t n, float beta, float* dw) {
  multiply(parallel, s,
           {.transpose_a = true,
            .m = s.gates,
            .n = n,
            .k = rows,
            .a = dz,
            .lda = s.gates,
            .b = in,
            .ldb = n,
            .beta = beta,
            .c = dw,
            .ldc = n});
}

// The column sums of dz, rows in their order.
inline void bias_grad(op::Parallel& parallel, const RecurrenceSizes& s, const float* dz, float* db) {
  for_slices(parallel, s.gates, num_slices(s.gates, s.rows() * s.gates, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               std::fill(db + begin, db + end, 0.0F);
               for (std::int64_t r = 0; r < s.rows(); ++r)
                 vector_loops().add(db + begin, dz + r * s.gates + begin, db + begin, end - begin);
             });
}

// dX = dZ W_ih
inline void input_grad(op::Parallel& parallel, const RecurrenceSizes& s, const float* dz, const float* w_ih,
                       float* dx) {
  multiply(parallel, s,
           {.m = s.rows(),
            .n = s.size,
            .k = s.gates,
            .a = dz,
            .lda = s.gates,
            .b = w_ih,
            .ldb = s.size,
            .beta = 0,
            .c = dx,
            .ldc = s.size});
}

inline bool applicable(const op::KernelQuery& q) { return all_f32(q) && fits_int32(q) && gemm_usable(); }

inline std::unique_ptr<op::KernelState> prepare(const op::KernelQuery&) {
  gemm_prepare();
  return nullptr;
}

}  // namespace trireme::kernel::recurrence
