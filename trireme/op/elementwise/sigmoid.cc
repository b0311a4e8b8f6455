// Elementwise 1 / (1 + exp(-x)).
#include <cmath>

#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = y (1 - y) dy: uses y, so x need not stay alive.
Result<Grads> grad(GradBuilder& g) {
  return Grads{g.mul(g.grad_output(0), g.mul(g.output(0), g.sub(g.ones_like(g.output(0)), g.output(0))))};
}

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return 1 / (1 + math::exp(-v)); });
}
}  // namespace

const OpDef kSigmoid{.name = "sigmoid",
                     .doc = "Elementwise 1 / (1 + exp(-x)).",
                     .family = "elementwise",
                     .num_inputs = 1,
                     .infer = infer_unary_float,
                     .grad = grad,
                     .reference = run,
                     .cost = cost_per_output<11>,
                     .layout = elementwise_layout,
                     .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
