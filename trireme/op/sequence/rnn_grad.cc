// Gradients of rnn. Inputs and outputs: recurrent.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/rnn.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr Pass kPass = Pass::kGrad;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_nonlinearity(attrs));
  return infer_recurrent(rnn_kind(attrs), kPass, in);
}

Result<Grads> grad(GradBuilder& g) { return recurrent_grad(g, rnn_kind(g.attrs()), kPass, kRnnGradGrad); }

void run(KernelArgs& a) {
  if (is_relu(a.attrs)) return run_recurrent<RnnCell<true>, kPass>(a);
  run_recurrent<RnnCell<false>, kPass>(a);
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return recurrent_cost(rnn_kind(attrs), kPass, in, out);
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  return recurrent_layout(rnn_kind(attrs), kPass);
}
}  // namespace

const OpDef kRnnGrad{.name = "rnn_grad",
                     .doc = "Gradients of the inputs of rnn from these and the gradients of its outputs.",
                     .family = "sequence",
                     .num_inputs = 8,
                     .num_outputs = 6,
                     .attrs = rnn_attrs(),
                     .infer = infer,
                     .grad = grad,
                     .reference = run,
                     .reference_workspace = recurrent_workspace<RnnCell<false>, kPass>,
                     .cost = cost,
                     .layout = layout};

}  // namespace trireme::op
