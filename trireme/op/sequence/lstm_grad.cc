// Gradients of lstm. Inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kGrad;

Types infer(TypeSpan in, const Attrs&) { return infer_recurrent(kind_of<LstmCell>(), kPass, in); }

Result<Grads> grad(GradBuilder& g) { return recurrent_grad(g, kind_of<LstmCell>(), kPass, kLstmGradGrad); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  return recurrent_cost(kind_of<LstmCell>(), kPass, in, out);
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) {
  return recurrent_layout(kind_of<LstmCell>(), kPass);
}
}  // namespace

const OpDef kLstmGrad{.name = "lstm_grad",
                      .doc = "Gradients of the inputs of lstm from these and the gradients of its outputs.",
                      .family = "sequence",
                      .num_inputs = 10,
                      .num_outputs = 7,
                      .infer = infer,
                      .grad = grad,
                      .reference = run_recurrent<LstmCell, kPass>,
                      .reference_workspace = recurrent_workspace<LstmCell, kPass>,
                      .cost = cost,
                      .layout = layout};

}  // namespace trireme::op
