// rnn, lstm, gru and their gradients, which go forward again before they go back. How: recurrence.h.
#include "trireme/kernel/cpu/recurrent/recurrence.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

using namespace recurrence;

template <Cell kCell, bool kBackward>
std::size_t workspace(const op::KernelQuery& q) {
  WorkspaceArrays arrays;
  RecurrenceBuffers(RecurrenceSizes(kCell, q.inputs[0].shape, q.inputs[1].shape), kBackward, arrays);
  return arrays.bytes();
}

template <Cell kCell>
void run_forward(op::KernelArgs& args) {
  const RecurrenceSizes s(kCell, args.in(0).shape(), args.in(1).shape());
  const int first = s.has_cell ? 3 : 2;
  const RecurrentWeights w{f32_in(args, first), f32_in(args, first + 1), f32_in(args, first + 2),
                           f32_in(args, first + 3)};
  const float* h0 = f32_in(args, 1);
  float *y = f32_out(args, 0), *h_n = f32_out(args, 1), *c = nullptr;
  if (s.has_cell) {
    c = f32_out(args, 2);
    std::copy_n(f32_in(args, 2), s.state(), c);
  }
  WorkspaceArrays arrays(args.workspace.data());
  const RecurrenceBuffers to(s, false, arrays);
  const CellLoops& cell = loops_of(kCell, args.attrs);
  start_gates(args.parallel, s, w, f32_in(args, 0), to);
  go_forward(args.parallel, s, cell, to, [&](std::int64_t t) {
    return States{t == 0 ? h0 : y + (t - 1) * s.state(), c, y + t * s.state(), c};
  });
  std::copy_n(s.steps == 0 ? h0 : y + (s.steps - 1) * s.state(), s.state(), h_n);
}

template <Cell kCell>
void run_backward(op::KernelArgs& args) {
  const RecurrenceSizes s(kCell, args.in(0).shape(), args.in(1).shape());
  const int first = s.has_cell ? 3 : 2;  // of the weights, among inputs and among their gradients
  const RecurrentWeights w{f32_in(args, first), f32_in(args, first + 1), f32_in(args, first + 2),
                           f32_in(args, first + 3)};
  const float *x = f32_in(args, 0), *dy = f32_in(args, first + 4);
  float *dh = f32_out(args, 1), *dc = s.has_cell ? f32_out(args, 2) : nullptr;
  WorkspaceArrays arrays(args.workspace.data());
  const RecurrenceBuffers at(s, true, arrays);
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
  const float* w_hh = cut_weights(args.parallel, s, w.w_hh, at.w_hh);
  go_back(args.parallel, s, cell, {at.z, at.zh, at.h, at.c, w_hh, dy, dh, dc});
  input_grad(args.parallel, s, at.z, w.w_ih, f32_out(args, 0));
  weight_grad(args.parallel, s, at.z, x, s.rows(), s.size, 0, f32_out(args, first));
  weight_grad(args.parallel, s, at.zh, at.h, s.rows(), s.units, 0, f32_out(args, first + 1));
  bias_grad(args.parallel, s, at.z, f32_out(args, first + 2));
  bias_grad(args.parallel, s, at.zh, f32_out(args, first + 3));
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

extern const op::KernelRow kGruGemm = forward_row<Cell::kGru>("gru");
extern const op::KernelRow kGruGradGemm = backward_row<Cell::kGru>("gru_grad");
extern const op::KernelRow kLstmGemm = forward_row<Cell::kLstm>("lstm");
extern const op::KernelRow kLstmGradGemm = backward_row<Cell::kLstm>("lstm_grad");
extern const op::KernelRow kRnnGemm = forward_row<Cell::kRnn>("rnn");
extern const op::KernelRow kRnnGradGemm = backward_row<Cell::kRnn>("rnn_grad");

}  // namespace trireme::kernel
