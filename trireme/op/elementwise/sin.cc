// Elementwise sine.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = cos(x) dy
Result<Grads> grad(GradBuilder& g) { return Grads{g.mul(g.grad_output(0), g.add(kCos, {g.input(0)}))}; }

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return math::sin(v); });
}
}  // namespace

const OpDef kSin{.name = "sin",
                 .doc = "Elementwise sine (radians).",
                 .family = "elementwise",
                 .num_inputs = 1,
                 .infer = infer_unary_float,
                 .grad = grad,
                 .reference = run,
                 .cost = cost_per_output<8>,
                 .layout = elementwise_layout,
                 .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
