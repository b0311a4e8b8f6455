// rnn, lstm, gru and their gradients. Products over all steps at once where there is no recurrence, one
// product per step where there is. Slices of the batch go through the steps on their own; where these would
// be thin every step is cut over the gates instead, so that a thread keeps its part of W_hh in its cache.
// W_hh is transposed once: libraries multiply few rows by a transposed matrix at half their speed.
//   forward   Z = b + X W_ih^T;  for t: Z_t += h W_hh^T, h = cell(Z_t)            (gru keeps the two sums
//   apart) backward  forward again;  for t from the last: dZ_t = cell'(Z_t), dh += dZ_t W_hh
//             dX = dZ W_ih;  dW_ih = dZ^T X;  dW_hh = dZ^T H;  db = column sums of dZ
#include <algorithm>

#include "trireme/kernel/cpu/gemm.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/simd/cell_loops.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {
namespace {

bool applicable(const op::KernelQuery& q) { return all_f32(q) && fits_int32(q) && gemm_usable(); }

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery&) {
  gemm_prepare();
  return nullptr;
}

enum class Cell { kRnn, kLstm, kGru };

struct Sizes {
  std::int64_t steps, batch, size, units, gates;  // gates: values per sample and step
  bool has_cell, splits;                          // splits: zh apart from z

  Sizes(Cell cell, const Shape& x, const Shape& h0)
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
  // Of the product of one step.
  int step_slices(std::int64_t items, int width) const {
    return num_slices(items, batch * gates * units / 32, width);
  }
  bool by_samples(int width) const {
    constexpr std::int64_t kThin = 8;
    return batch >= kThin * width || step_slices(gates, width) <= 2;
  }
};

const CellLoops& loops_of(Cell cell, const op::Attrs& attrs) {
  const CellSet& set = cell_loops();
  if (cell == Cell::kLstm) return set.lstm;
  if (cell == Cell::kGru) return set.gru;
  return attrs.get_text("nonlinearity") == "relu" ? set.rnn_relu : set.rnn_tanh;
}

// Arrays in the workspace, each from a cache line on. Without one it counts.
class Arrays {
 public:
  explicit Arrays(std::byte* base = nullptr) : base_(reinterpret_cast<float*>(base)) {}
  float* take(std::int64_t elems) {
    float* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (elems + 15) / 16 * 16;
    return at;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(used_) * sizeof(float); }

 private:
  float* base_;
  std::int64_t used_ = 0;
};

struct Weights {
  const float *w_ih, *w_hh, *b_ih, *b_hh;
};

struct Scratch {
  float* w_hh;            // transposed: [units, gates]
  float *z, *zh, *h, *c;  // h and c before every step and after the last
  Scratch(const Sizes& s, bool backward, Arrays& arrays)
      : w_hh(arrays.take(s.gates * s.units)),
        z(arrays.take(s.rows() * s.gates)),
        zh(s.splits ? arrays.take(s.rows() * s.gates) : z),
        h(backward ? arrays.take((s.steps + 1) * s.state()) : nullptr),
        c(backward && s.has_cell ? arrays.take((s.steps + 1) * s.state()) : nullptr) {}
};

template <Cell kCell, bool kBackward>
std::size_t workspace(const op::KernelQuery& q) {
  Arrays arrays;
  Scratch(Sizes(kCell, q.inputs[0].shape, q.inputs[1].shape), kBackward, arrays);
  return arrays.bytes();
}

// The rows of the result are cut over slices.
void multiply(op::Parallel& parallel, const Sizes& s, const Gemm& whole) {
  for_slices(parallel, whole.m, s.slices(whole.m / 16, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               Gemm part = whole;
               part.m = end - begin;
               part.a += whole.transpose_a ? begin : begin * whole.lda;
               part.c += begin * whole.ldc;
               gemm(part);
             });
}

// to [columns, rows] = from [rows, columns], in tiles.
void transpose(op::Parallel& parallel, const float* from, std::int64_t rows, std::int64_t columns,
               float* to) {
  constexpr std::int64_t kTile = 16;
  for_slices(parallel, columns, num_slices(columns / kTile, rows * columns, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t i = 0; i < rows; i += kTile)
                 for (std::int64_t j = begin; j < end; ++j)
                   for (std::int64_t k = i; k < std::min(i + kTile, rows); ++k)
                     to[j * rows + k] = from[k * columns + j];
             });
}

// Everything in z and zh that does not depend on the states.
void start_gates(op::Parallel& parallel, const Sizes& s, const Weights& w, const float* x,
                 const Scratch& to) {
  transpose(parallel, w.w_hh, s.gates, s.units, to.w_hh);
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

struct Range {
  std::int64_t begin, end;
};

// zh of step t += h W_hh^T, for some samples and gates.
void add_recurrent(const Sizes& s, const Scratch& to, std::int64_t t, const float* h, Range samples,
                   Range gates) {
  gemm({.m = samples.end - samples.begin,
        .n = gates.end - gates.begin,
        .k = s.units,
        .a = h + samples.begin * s.units,
        .lda = s.units,
        .b = to.w_hh + gates.begin,
        .ldb = s.gates,
        .beta = 1,
        .c = to.zh + (t * s.batch + samples.begin) * s.gates + gates.begin,
        .ldc = s.gates});
}

void run_cells(const Sizes& s, const CellLoops& cell, const Scratch& to, std::int64_t t, const States& at,
               Range samples) {
  for (std::int64_t b = samples.begin; b < samples.end; ++b) {
    const std::int64_t row = (t * s.batch + b) * s.gates, unit = b * s.units;
    cell.step(to.z + row, to.zh + row, at.h + unit, at.c == nullptr ? nullptr : at.c + unit, at.new_h + unit,
              at.new_c == nullptr ? nullptr : at.new_c + unit, s.units);
  }
}

// Calls fn(Range) over slices of [0, n), which begin at whole cache lines.
template <typename Fn>
void for_lines(op::Parallel& parallel, const Sizes& s, std::int64_t n, const Fn& fn) {
  constexpr std::int64_t kLine = 16;
  const std::int64_t lines = (n + kLine - 1) / kLine;
  for_slices(parallel, lines, s.step_slices(lines, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               const Range range{begin * kLine, std::min(end * kLine, n)};
               if (range.begin < range.end) fn(range);
             });
}

// All steps in order; states_at(t) says where the states are.
template <typename StatesAt>
void go_forward(op::Parallel& parallel, const Sizes& s, const CellLoops& cell, const Scratch& to,
                const StatesAt& states_at) {
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

template <Cell kCell>
void run_forward(op::KernelArgs& args) {
  const Sizes s(kCell, args.in(0).shape(), args.in(1).shape());
  const int first = s.has_cell ? 3 : 2;
  const Weights w{f32_in(args, first), f32_in(args, first + 1), f32_in(args, first + 2),
                  f32_in(args, first + 3)};
  const float* h0 = f32_in(args, 1);
  float *y = f32_out(args, 0), *h_n = f32_out(args, 1), *c = nullptr;
  if (s.has_cell) {
    c = f32_out(args, 2);
    std::copy_n(f32_in(args, 2), s.state(), c);
  }
  Arrays arrays(args.workspace.data());
  const Scratch to(s, false, arrays);
  const CellLoops& cell = loops_of(kCell, args.attrs);
  start_gates(args.parallel, s, w, f32_in(args, 0), to);
  go_forward(args.parallel, s, cell, to, [&](std::int64_t t) {
    return States{t == 0 ? h0 : y + (t - 1) * s.state(), c, y + t * s.state(), c};
  });
  std::copy_n(s.steps == 0 ? h0 : y + (s.steps - 1) * s.state(), s.state(), h_n);
}

// Where gradients go: z and zh become theirs; dh and dc, [batch, units], go from the last states to the
// first.
struct Back {
  const Scratch& at;
  const float *w_hh, *dy;
  float *dh, *dc;
};

void back_cells(const Sizes& s, const CellLoops& cell, const Back& to, std::int64_t t, Range samples) {
  for (std::int64_t b = samples.begin; b < samples.end; ++b) {
    const std::int64_t row = t * s.batch + b, unit = b * s.units;
    cell.back(to.at.z + row * s.gates, to.at.zh + row * s.gates, to.at.h + row * s.units,
              to.at.c == nullptr ? nullptr : to.at.c + row * s.units, to.dy + row * s.units, to.dh + unit,
              to.dc == nullptr ? nullptr : to.dc + unit, s.units);
  }
}

// dh += dzh W_hh, for some samples and units.
void back_recurrent(const Sizes& s, const Back& to, std::int64_t t, Range samples, Range units) {
  gemm({.m = samples.end - samples.begin,
        .n = units.end - units.begin,
        .k = s.gates,
        .a = to.at.zh + (t * s.batch + samples.begin) * s.gates,
        .lda = s.gates,
        .b = to.w_hh + units.begin,
        .ldb = s.units,
        .beta = 1,
        .c = to.dh + samples.begin * s.units + units.begin,
        .ldc = s.units});
}

void go_back(op::Parallel& parallel, const Sizes& s, const CellLoops& cell, const Back& to) {
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

// dw [gates, n] = dz^T in, in being [rows, n]; db = the column sums of dz, rows in their order.
void weight_grads(op::Parallel& parallel, const Sizes& s, const float* dz, const float* in, std::int64_t n,
                  float* dw, float* db) {
  multiply(parallel, s,
           {.transpose_a = true,
            .m = s.gates,
            .n = n,
            .k = s.rows(),
            .a = dz,
            .lda = s.gates,
            .b = in,
            .ldb = n,
            .beta = 0,
            .c = dw,
            .ldc = n});
  for_slices(parallel, s.gates, num_slices(s.gates, s.rows() * s.gates, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               std::fill(db + begin, db + end, 0.0F);
               for (std::int64_t r = 0; r < s.rows(); ++r)
                 vector_loops().add(db + begin, dz + r * s.gates + begin, db + begin, end - begin);
             });
}

template <Cell kCell>
void run_backward(op::KernelArgs& args) {
  const Sizes s(kCell, args.in(0).shape(), args.in(1).shape());
  const int first = s.has_cell ? 3 : 2;  // of the weights, among inputs and among their gradients
  const Weights w{f32_in(args, first), f32_in(args, first + 1), f32_in(args, first + 2),
                  f32_in(args, first + 3)};
  const float *x = f32_in(args, 0), *dy = f32_in(args, first + 4);
  float *dh = f32_out(args, 1), *dc = s.has_cell ? f32_out(args, 2) : nullptr;
  Arrays arrays(args.workspace.data());
  const Scratch at(s, true, arrays);
  const CellLoops& cell = loops_of(kCell, args.attrs);
  std::copy_n(f32_in(args, 1), s.state(), at.h);
  if (s.has_cell) std::copy_n(f32_in(args, 2), s.state(), at.c);
  start_gates(args.parallel, s, w, x, at);
  go_forward(args.parallel, s, cell, at, [&](std::int64_t t) {
    float *h = at.h + t * s.state(), *c = s.has_cell ? at.c + t * s.state() : nullptr;
    return States{h, c, h + s.state(), s.has_cell ? c + s.state() : nullptr};
  });
  std::copy_n(f32_in(args, first + 5), s.state(), dh);
  if (s.has_cell) std::copy_n(f32_in(args, first + 6), s.state(), dc);
  go_back(args.parallel, s, cell, {at, w.w_hh, dy, dh, dc});
  multiply(args.parallel, s,
           {.m = s.rows(),
            .n = s.size,
            .k = s.gates,
            .a = at.z,
            .lda = s.gates,
            .b = w.w_ih,
            .ldb = s.size,
            .beta = 0,
            .c = f32_out(args, 0),
            .ldc = s.size});
  weight_grads(args.parallel, s, at.z, x, s.size, f32_out(args, first), f32_out(args, first + 2));
  weight_grads(args.parallel, s, at.zh, at.h, s.units, f32_out(args, first + 1), f32_out(args, first + 3));
}

template <Cell kCell>
constexpr op::KernelRow forward_row(const char* op) {
  return {.op = op,
          .name = kGemmRowName,
          .run = run_forward<kCell>,
          .applicable = applicable,
          .workspace_bytes = workspace<kCell, false>,
          .prepare = prepare};
}
template <Cell kCell>
constexpr op::KernelRow backward_row(const char* op) {
  return {.op = op,
          .name = kGemmRowName,
          .run = run_backward<kCell>,
          .applicable = applicable,
          .workspace_bytes = workspace<kCell, true>,
          .prepare = prepare};
}

}  // namespace

const op::KernelRow kGruGemm = forward_row<Cell::kGru>("gru");
const op::KernelRow kGruGradGemm = backward_row<Cell::kGru>("gru_grad");
const op::KernelRow kLstmGemm = forward_row<Cell::kLstm>("lstm");
const op::KernelRow kLstmGradGemm = backward_row<Cell::kLstm>("lstm_grad");
const op::KernelRow kRnnGemm = forward_row<Cell::kRnn>("rnn");
const op::KernelRow kRnnGradGemm = backward_row<Cell::kRnn>("rnn_grad");

}  // namespace trireme::kernel
