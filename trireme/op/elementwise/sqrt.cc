// Elementwise square root; NaN below zero.
#include <cmath>

#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = dy / (2 y)
Result<Grads> grad(GradBuilder& g) {
  return Grads{g.scale(g.add(kDiv, {g.grad_output(0), g.output(0)}), 0.5)};
}

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return math::sqrt(v); });
}
}  // namespace

const OpDef kSqrt{.name = "sqrt",
                  .doc = "Elementwise square root; NaN below zero.",
                  .family = "elementwise",
                  .num_inputs = 1,
                  .infer = infer_unary_float,
                  .grad = grad,
                  .reference = run,
                  .cost = cost_per_output<1>,
                  .layout = elementwise_layout,
                  .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
