// Gradient of relu by its output: dy where y > 0, else 0.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_numeric("dy", in[0]));
  TR_RETURN_IF_ERROR(expect_type("y", in[1], in[0]));
  return std::vector{in[0]};
}

// Linear in dy; flat in y almost everywhere.
Result<Grads> grad(GradBuilder& g) {
  return Grads{g.add(kReluGrad, {g.grad_output(0), g.input(1)}), Value{}};
}

void run(KernelArgs& a) {
  zip_numeric(a.in(0), a.in(1), a.out(0), [](auto dy, auto y) { return y > 0 ? dy : decltype(dy){0}; });
}
}  // namespace

const OpDef kReluGrad{
    .name = "relu_grad",
    .doc = "Gradient of relu from (dy, y): dy where y > 0, else 0. Takes relu's output, not its input.",
    .family = "elementwise",
    .num_inputs = 2,
    .dtypes = kNumeric,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost_per_output<1>,
    .layout = elementwise_layout,
    .linear = {.inputs = 1},
    .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
