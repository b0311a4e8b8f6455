// Gradients of lstm_grad: its kernel on dual numbers (dual.h). Has no gradient of its own, so lstm can be
// differentiated twice. Inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kGradGrad;

Types infer(TypeSpan in, const Attrs&) { return infer_recurrent(kind_of<LstmCell>(), kPass, in); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  return recurrent_cost(kind_of<LstmCell>(), kPass, in, out);
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) {
  return recurrent_layout(kind_of<LstmCell>(), kPass);
}
}  // namespace

const OpDef kLstmGradGrad{.name = "lstm_grad_grad",
                          .doc = "Gradients of <u, lstm_grad> from the inputs of lstm_grad and u.",
                          .family = "sequence",
                          .num_inputs = 17,
                          .num_outputs = 10,
                          .infer = infer,
                          .reference = run_recurrent<LstmCell, kPass>,
                          .reference_workspace = recurrent_workspace<LstmCell, kPass>,
                          .cost = cost,
                          .layout = layout};

}  // namespace trireme::op
