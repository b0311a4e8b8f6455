// Elementwise hyperbolic tangent.
#include <cmath>

#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = (1 - y*y) dy: uses y, so x need not stay alive.
Result<Grads> grad(GradBuilder& g) {
  return Grads{g.mul(g.grad_output(0), g.sub(g.ones_like(g.output(0)), g.add(kSquare, {g.output(0)})))};
}

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return math::tanh(v); });
}
}  // namespace

const OpDef kTanh{.name = "tanh",
                  .doc = "Elementwise hyperbolic tangent.",
                  .family = "elementwise",
                  .num_inputs = 1,
                  .infer = infer_unary_float,
                  .grad = grad,
                  .reference = run,
                  .cost = cost_per_output<8>,
                  .layout = elementwise_layout,
                  .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
