// Gated recurrent unit over a sequence. Formulas: cells.h; inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kForward;

Result<Grads> grad(GradBuilder& g) { return recurrent_grad(g, kind_of<GruCell>(), kPass, kGruGrad); }
}  // namespace

const OpDef kGru{.name = "gru",
                 .doc = "GRU over a sequence: (x, h0, w_ih, w_hh, b_ih, b_hh) -> (y, h_n).",
                 .family = "sequence",
                 .num_inputs = 6,
                 .num_outputs = 2,
                 .infer = infer_cell<GruCell, kPass>,
                 .grad = grad,
                 .reference = run_recurrent<GruCell, kPass>,
                 .reference_workspace = recurrent_workspace<GruCell, kPass>,
                 .cost = cell_cost<GruCell, kPass>,
                 .layout = cell_layout<GruCell, kPass>};

}  // namespace trireme::op
