// Elementwise x * x. Integers wrap around.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = 2 x dy
Result<Grads> grad(GradBuilder& g) { return Grads{g.scale(g.mul(g.grad_output(0), g.input(0)), 2.0)}; }

void run(KernelArgs& a) {
  map_numeric(a.in(0), a.out(0), [](auto v) { return wrapping(v) * wrapping(v); });
}
}  // namespace

const OpDef kSquare{.name = "square",
                    .doc = "Elementwise x * x. Integers wrap around.",
                    .family = "elementwise",
                    .num_inputs = 1,
                    .dtypes = kNumeric,
                    .infer = infer_unary_numeric,
                    .grad = grad,
                    .reference = run,
                    .cost = cost_per_output<1>,
                    .layout = elementwise_layout,
                    .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
