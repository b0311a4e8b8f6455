// lstm_kept, which leaves its gates and cell states in outputs, and its gradient, which reads them.
#include "trireme/kernel/cpu/recurrent/recurrence.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

using namespace recurrence;

RecurrenceSizes sizes_of(const Shape& x, const Shape& h0) { return {Cell::kLstm, x, h0}; }

// W_hh transposed.
std::size_t forward_bytes(const op::KernelQuery& q) {
  const RecurrenceSizes s = sizes_of(q.inputs[0].shape, q.inputs[1].shape);
  WorkspaceArrays arrays;
  arrays.take(s.gates * s.units);
  return arrays.bytes();
}

void run_forward(op::KernelArgs& args) {
  const RecurrenceSizes s = sizes_of(args.in(0).shape(), args.in(1).shape());
  const RecurrentWeights w{f32_in(args, 3), f32_in(args, 4), f32_in(args, 5), f32_in(args, 6)};
  const float *h0 = f32_in(args, 1), *c0 = f32_in(args, 2);
  float *y = f32_out(args, 0), *c_n = f32_out(args, 2), *gates = f32_out(args, 3), *cells = f32_out(args, 4);
  std::copy_n(c0, s.state(), s.steps == 0 ? c_n : cells);
  WorkspaceArrays arrays(args.workspace.data());
  const RecurrenceBuffers to{arrays.take(s.gates * s.units), gates};
  start_gates(args.parallel, s, w, f32_in(args, 0), to);
  go_forward(args.parallel, s, loops_of(Cell::kLstm, args.attrs), to, [&](std::int64_t t) {
    return States{t == 0 ? h0 : y + (t - 1) * s.state(), cells + t * s.state(), y + t * s.state(),
                  t + 1 == s.steps ? c_n : cells + (t + 1) * s.state()};
  });
  std::copy_n(s.steps == 0 ? h0 : y + (s.steps - 1) * s.state(), s.state(), f32_out(args, 1));
}

// dZ, and W_hh in slices.
std::size_t backward_bytes(const op::KernelQuery& q) {
  const RecurrenceSizes s = sizes_of(q.inputs[0].shape, q.inputs[1].shape);
  WorkspaceArrays arrays;
  arrays.take(s.rows() * s.gates);
  arrays.take(s.gates * s.units);
  return arrays.bytes();
}

void run_backward(op::KernelArgs& args) {
  const RecurrenceSizes s = sizes_of(args.in(0).shape(), args.in(1).shape());
  const float *x = f32_in(args, 0), *h0 = f32_in(args, 1), *w_ih = f32_in(args, 2), *w_hh = f32_in(args, 3);
  const float *y = f32_in(args, 4), *gates = f32_in(args, 5), *cells = f32_in(args, 6), *dy = f32_in(args, 7);
  float *dh = f32_out(args, 1), *dc = f32_out(args, 2), *dw_hh = f32_out(args, 4);
  std::copy_n(f32_in(args, 8), s.state(), dh);
  std::copy_n(f32_in(args, 9), s.state(), dc);
  WorkspaceArrays arrays(args.workspace.data());
  float* const dz = arrays.take(s.rows() * s.gates);
  const float* weights = cut_weights(args.parallel, s, w_hh, arrays.take(s.gates * s.units));
  go_back(args.parallel, s, loops_of(Cell::kLstm, args.attrs),
          {dz, dz, nullptr, cells, weights, dy, dh, dc, gates});
  input_grad(args.parallel, s, dz, w_ih, f32_out(args, 0));
  weight_grad(args.parallel, s, dz, x, s.rows(), s.size, 0, f32_out(args, 3));
  // The states before the steps: h0, then y but for its last.
  const std::int64_t first = s.steps > 0 ? s.batch : 0;
  weight_grad(args.parallel, s, dz, h0, first, s.units, 0, dw_hh);
  if (s.steps > 1)
    weight_grad(args.parallel, s, dz + first * s.gates, y, s.rows() - first, s.units, 1, dw_hh);
  bias_grad(args.parallel, s, dz, f32_out(args, 5));
  std::copy_n(f32_out(args, 5), s.gates, f32_out(args, 6));
}

}  // namespace

extern const op::KernelRow kLstmKeptGemm{.op = "lstm_kept",
                                         .name = kGemmRowName,
                                         .run = run_forward,
                                         .applicable = applicable,
                                         .workspace_bytes = forward_bytes,
                                         .prepare = prepare};
extern const op::KernelRow kLstmKeptGradGemm{.op = "lstm_kept_grad",
                                             .name = kGemmRowName,
                                             .run = run_backward,
                                             .applicable = applicable,
                                             .workspace_bytes = backward_bytes,
                                             .prepare = prepare};

}  // namespace trireme::kernel
