// Long short-term memory over a sequence. Formulas: cells.h; inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kForward;

Result<Grads> grad(GradBuilder& g) { return recurrent_grad(g, kind_of<LstmCell>(), kPass, kLstmGrad); }
}  // namespace

const OpDef kLstm{.name = "lstm",
                  .doc = "LSTM over a sequence: (x, h0, c0, w_ih, w_hh, b_ih, b_hh) -> (y, h_n, c_n).",
                  .family = "sequence",
                  .num_inputs = 7,
                  .num_outputs = 3,
                  .infer = infer_cell<LstmCell, kPass>,
                  .grad = grad,
                  .reference = run_recurrent<LstmCell, kPass>,
                  .reference_workspace = recurrent_workspace<LstmCell, kPass>,
                  .cost = cell_cost<LstmCell, kPass>,
                  .layout = cell_layout<LstmCell, kPass>};

}  // namespace trireme::op
