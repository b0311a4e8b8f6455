// Gradients of gru. Inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kGrad;

Types infer(TypeSpan in, const Attrs&) { return infer_recurrent(kind_of<GruCell>(), kPass, in); }

Result<Grads> grad(GradBuilder& g) { return recurrent_grad(g, kind_of<GruCell>(), kPass, kGruGradGrad); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  return recurrent_cost(kind_of<GruCell>(), kPass, in, out);
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) {
  return recurrent_layout(kind_of<GruCell>(), kPass);
}
}  // namespace

const OpDef kGruGrad{.name = "gru_grad",
                     .doc = "Gradients of the inputs of gru from these and the gradients of its outputs.",
                     .family = "sequence",
                     .num_inputs = 8,
                     .num_outputs = 6,
                     .infer = infer,
                     .grad = grad,
                     .reference = run_recurrent<GruCell, kPass>,
                     .reference_workspace = recurrent_workspace<GruCell, kPass>,
                     .cost = cost,
                     .layout = layout};

}  // namespace trireme::op
