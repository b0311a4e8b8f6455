// Gradients of lstm_grad: its kernel on dual numbers (dual.h). Has no gradient of its own, so lstm can be
// differentiated twice. Inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kGradGrad;

}  // namespace

const OpDef kLstmGradGrad{.name = "lstm_grad_grad",
                          .doc = "Gradients of <u, lstm_grad> from the inputs of lstm_grad and u.",
                          .family = "sequence",
                          .num_inputs = 17,
                          .num_outputs = 10,
                          .infer = infer_cell<LstmCell, kPass>,
                          .reference = run_recurrent<LstmCell, kPass>,
                          .reference_workspace = recurrent_workspace<LstmCell, kPass>,
                          .cost = cell_cost<LstmCell, kPass>,
                          .layout = cell_layout<LstmCell, kPass>};

}  // namespace trireme::op
