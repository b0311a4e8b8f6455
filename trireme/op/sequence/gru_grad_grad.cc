// Gradients of gru_grad: its kernel on dual numbers (dual.h). Has no gradient of its own, so gru can be
// differentiated twice. Inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kGradGrad;

}  // namespace

const OpDef kGruGradGrad{.name = "gru_grad_grad",
                         .doc = "Gradients of <u, gru_grad> from the inputs of gru_grad and u.",
                         .family = "sequence",
                         .num_inputs = 14,
                         .num_outputs = 8,
                         .infer = infer_cell<GruCell, kPass>,
                         .reference = run_recurrent<GruCell, kPass>,
                         .reference_workspace = recurrent_workspace<GruCell, kPass>,
                         .cost = cell_cost<GruCell, kPass>,
                         .layout = cell_layout<GruCell, kPass>};

}  // namespace trireme::op
