// Gradients of rnn_grad: its kernel on dual numbers (dual.h). Has no gradient of its own, so rnn can be
// differentiated twice. Inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/rnn.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kGradGrad;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_nonlinearity(attrs));
  return infer_recurrent(rnn_kind(attrs), kPass, in);
}

void run(KernelArgs& a) {
  if (is_relu(a.attrs)) return run_recurrent<RnnCell<true>, kPass>(a);
  run_recurrent<RnnCell<false>, kPass>(a);
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return recurrent_cost(rnn_kind(attrs), kPass, in, out);
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  return recurrent_layout(rnn_kind(attrs), kPass);
}
}  // namespace

const OpDef kRnnGradGrad{.name = "rnn_grad_grad",
                         .doc = "Gradients of <u, rnn_grad> from the inputs of rnn_grad and u.",
                         .family = "sequence",
                         .num_inputs = 14,
                         .num_outputs = 8,
                         .attrs = rnn_attrs(),
                         .infer = infer,
                         .reference = run,
                         .reference_workspace = recurrent_workspace<RnnCell<false>, kPass>,
                         .cost = cost,
                         .layout = layout};

}  // namespace trireme::op
