// Elman network (tanh or relu) over a sequence. Formulas: cells.h; inputs and outputs: recurrent.h.
#include "trireme/op/sequence/rnn.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kForward;

Result<Grads> grad(GradBuilder& g) { return recurrent_grad(g, rnn_kind(g.attrs()), kPass, kRnnGrad); }
}  // namespace

const OpDef kRnn{.name = "rnn",
                 .doc = "Elman network over a sequence: h = tanh or relu (W_ih x + b_ih + W_hh h + b_hh).",
                 .family = "sequence",
                 .num_inputs = 6,
                 .num_outputs = 2,
                 .attrs = rnn_attrs(),
                 .infer = infer_rnn<kPass>,
                 .grad = grad,
                 .reference = run_rnn<kPass>,
                 .reference_workspace = recurrent_workspace<RnnCell<false>, kPass>,
                 .cost = rnn_cost<kPass>,
                 .layout = rnn_layout<kPass>};

}  // namespace trireme::op
