// Gradients of rnn. Inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/rnn.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kGrad;

Result<Grads> grad(GradBuilder& g) { return recurrent_grad(g, rnn_kind(g.attrs()), kPass, kRnnGradGrad); }
}  // namespace

const OpDef kRnnGrad{.name = "rnn_grad",
                     .doc = "Gradients of the inputs of rnn from these and the gradients of its outputs.",
                     .family = "sequence",
                     .num_inputs = 8,
                     .num_outputs = 6,
                     .attrs = rnn_attrs(),
                     .infer = infer_rnn<kPass>,
                     .grad = grad,
                     .reference = run_rnn<kPass>,
                     .reference_workspace = recurrent_workspace<RnnCell<false>, kPass>,
                     .cost = rnn_cost<kPass>,
                     .layout = rnn_layout<kPass>,
                     .linear = {.inputs = 0b11U << 6, .together = true}};

}  // namespace trireme::op
