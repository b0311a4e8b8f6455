// Gradients of rnn_grad: its kernel on dual numbers (dual.h). Has no gradient of its own, so rnn can be
// differentiated twice. Inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/rnn.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kGradGrad;

}  // namespace

const OpDef kRnnGradGrad{.name = "rnn_grad_grad",
                         .doc = "Gradients of <u, rnn_grad> from the inputs of rnn_grad and u.",
                         .family = "sequence",
                         .num_inputs = 14,
                         .num_outputs = 8,
                         .attrs = rnn_attrs(),
                         .infer = infer_rnn<kPass>,
                         .reference = run_rnn<kPass>,
                         .reference_workspace = recurrent_workspace<RnnCell<false>, kPass>,
                         .cost = rnn_cost<kPass>,
                         .layout = rnn_layout<kPass>};

}  // namespace trireme::op
