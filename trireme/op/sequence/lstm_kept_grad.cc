// The backward half, from what lstm_kept kept.
#include "trireme/op/sequence/lstm_kept.h"
#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;

enum In : std::size_t { kX, kH0, kWih, kWhh, kY, kGates, kCells, kDy, kDh, kDc };

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[kX]));
  TR_RETURN_IF_ERROR(expect_rank("x", in[kX], 3));
  TR_RETURN_IF_ERROR(expect_rank("h0", in[kH0], 2));
  const DType dtype = in[kX].dtype;
  const std::int64_t steps = in[kX].shape[0], batch = in[kX].shape[1], size = in[kX].shape[2],
                     units = in[kH0].shape[1], rows = LstmCell::kGates * units;
  const TensorType state{dtype, {batch, units}}, states{dtype, {steps, batch, units}}, bias{dtype, {rows}};
  const TensorType w_ih{dtype, {rows, size}}, w_hh{dtype, {rows, units}};
  TR_RETURN_IF_ERROR(expect_type("h0", in[kH0], state));
  TR_RETURN_IF_ERROR(expect_type("w_ih", in[kWih], w_ih));
  TR_RETURN_IF_ERROR(expect_type("w_hh", in[kWhh], w_hh));
  TR_RETURN_IF_ERROR(expect_type("y", in[kY], states));
  TR_RETURN_IF_ERROR(expect_type("gates", in[kGates], {dtype, {steps, batch, rows}}));
  TR_RETURN_IF_ERROR(expect_type("cells", in[kCells], states));
  TR_RETURN_IF_ERROR(expect_type("dy", in[kDy], states));
  TR_RETURN_IF_ERROR(expect_type("dh_n", in[kDh], state));
  TR_RETURN_IF_ERROR(expect_type("dc_n", in[kDc], state));
  return std::vector{in[kX], state, state, w_ih, w_hh, bias, bias};
}

std::size_t workspace(TypeSpan in, const Attrs& attrs) {
  return recurrent_workspace<LstmCell, Pass::kGrad>(in, attrs);
}

void run(KernelArgs& a) {
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using N = Acc<T>;
    Scratch<N> scratch(a.workspace);
    Recurrence<LstmCell, N> r(a.in(0).type(), a.in(1).type(), scratch, /*backward=*/true);
    const auto read = [&](std::size_t i, N* to) { load<T>(a.inputs[i], to); };
    read(kX, r.x);
    read(kH0, r.h);
    read(kY, r.h + r.state());
    read(kCells, r.c);
    read(kWih, r.w_ih);
    read(kWhh, r.w_hh);
    read(kGates, r.gates_x);
    clear(r.gates_h, a.inputs[kGates].shape().num_elems());
    read(kDy, r.dy);
    read(kDh, r.dh);
    read(kDc, r.dc);
    r.backward();
    const auto results = arrays_of_gradients(r);
    for (std::size_t k = 0; k < results.size(); ++k)
      store(results[k], a.outputs[k].data<T>(), a.outputs[k].shape().num_elems());
  });
}

// What recurrent_cost has of a gradient beyond the forward pass.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  const auto steps = static_cast<double>(in[kX].shape[0]), batch = static_cast<double>(in[kX].shape[1]);
  const auto size = static_cast<double>(in[kX].shape[2]), units = static_cast<double>(in[kH0].shape[1]);
  const double rows = LstmCell::kGates * units;
  const Tally t = Tally::multiply_adds(2 * rows * (size + units)) + units * LstmCell::back_tally() +
                  Tally{.add = 2 * rows + units};
  double written = 0;
  for (const TensorType& o : out) written += elems(o);
  const double depth = steps > 0 ? steps * (log_depth(rows) + log_depth(batch) + 2) : 1;
  return {.flops = steps * batch * t.flops(false),
          .bytes = io_bytes(in, out),
          .work = std::max({steps * batch * t.work(false), written, depth}),
          .depth = depth};
}

// The batch; gradients of weights must then be added.
std::vector<LayoutOption> layout(TypeSpan, const Attrs&) {
  constexpr int kAll = kReplicate;
  return {{{1, 0, kAll, kAll, 1, 1, 1, 1, 0, 0}, {1, 0, 0, kPartial, kPartial, kPartial, kPartial}}};
}
}  // namespace

const OpDef kLstmKeptGrad{.name = "lstm_kept_grad",
                          .doc = "Gradients of the inputs of lstm from what lstm_kept kept.",
                          .family = "sequence",
                          .num_inputs = 10,
                          .num_outputs = 7,
                          .infer = infer,
                          .reference = run,
                          .reference_workspace = workspace,
                          .cost = cost,
                          .layout = layout};

}  // namespace trireme::op
