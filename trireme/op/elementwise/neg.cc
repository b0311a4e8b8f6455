// Elementwise -x. Integers wrap around.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = -dy
Result<Grads> grad(GradBuilder& g) { return Grads{g.neg(g.grad_output(0))}; }

void run(KernelArgs& a) {
  map_numeric(a.in(0), a.out(0), [](auto v) { return -wrapping(v); });
}
}  // namespace

const OpDef kNeg{.name = "neg",
                 .doc = "Elementwise -x. Integers wrap around.",
                 .family = "elementwise",
                 .num_inputs = 1,
                 .dtypes = kNumeric,
                 .infer = infer_unary_numeric,
                 .grad = grad,
                 .reference = run,
                 .cost = cost_per_output<1>,
                 .layout = elementwise_layout,
                 .linear = {.inputs = 1},
                 .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
