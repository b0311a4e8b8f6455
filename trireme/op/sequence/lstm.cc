// Long short-term memory over a sequence. Formulas: cells.h; inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kForward;

Types infer(TypeSpan in, const Attrs&) { return infer_recurrent(kind_of<LstmCell>(), kPass, in); }

Result<Grads> grad(GradBuilder& g) { return recurrent_grad(g, kind_of<LstmCell>(), kPass, kLstmGrad); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  return recurrent_cost(kind_of<LstmCell>(), kPass, in, out);
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) {
  return recurrent_layout(kind_of<LstmCell>(), kPass);
}
}  // namespace

const OpDef kLstm{.name = "lstm",
                  .doc = "LSTM over a sequence: (x, h0, c0, w_ih, w_hh, b_ih, b_hh) -> (y, h_n, c_n).",
                  .family = "sequence",
                  .num_inputs = 7,
                  .num_outputs = 3,
                  .infer = infer,
                  .grad = grad,
                  .reference = run_recurrent<LstmCell, kPass>,
                  .reference_workspace = recurrent_workspace<LstmCell, kPass>,
                  .cost = cost,
                  .layout = layout};

}  // namespace trireme::op
