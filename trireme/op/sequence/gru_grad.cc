// Gradients of gru. Inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kGrad;

Result<Grads> grad(GradBuilder& g) { return recurrent_grad(g, kind_of<GruCell>(), kPass, kGruGradGrad); }
}  // namespace

const OpDef kGruGrad{.name = "gru_grad",
                     .doc = "Gradients of the inputs of gru from these and the gradients of its outputs.",
                     .family = "sequence",
                     .num_inputs = 8,
                     .num_outputs = 6,
                     .infer = infer_cell<GruCell, kPass>,
                     .grad = grad,
                     .reference = run_recurrent<GruCell, kPass>,
                     .reference_workspace = recurrent_workspace<GruCell, kPass>,
                     .cost = cell_cost<GruCell, kPass>,
                     .layout = cell_layout<GruCell, kPass>,
                     .linear = {.inputs = 0b11U << 6, .together = true}};

}  // namespace trireme::op
