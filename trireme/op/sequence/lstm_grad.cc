// Gradients of lstm. Inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kGrad;

Result<Grads> grad(GradBuilder& g) { return recurrent_grad(g, kind_of<LstmCell>(), kPass, kLstmGradGrad); }
}  // namespace

const OpDef kLstmGrad{.name = "lstm_grad",
                      .doc = "Gradients of the inputs of lstm from these and the gradients of its outputs.",
                      .family = "sequence",
                      .num_inputs = 10,
                      .num_outputs = 7,
                      .infer = infer_cell<LstmCell, kPass>,
                      .grad = grad,
                      .reference = run_recurrent<LstmCell, kPass>,
                      .reference_workspace = recurrent_workspace<LstmCell, kPass>,
                      .cost = cell_cost<LstmCell, kPass>,
                      .layout = cell_layout<LstmCell, kPass>,
                      .linear = {.inputs = 0b111U << 7, .together = true}};

}  // namespace trireme::op
