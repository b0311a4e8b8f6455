// Elementwise natural logarithm; NaN below zero, -inf at zero.
#include <cmath>

#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = dy / x
Result<Grads> grad(GradBuilder& g) { return Grads{g.add(kDiv, {g.grad_output(0), g.input(0)})}; }

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return math::log(v); });
}
}  // namespace

const OpDef kLog{.name = "log",
                 .doc = "Elementwise natural logarithm; NaN below zero, -inf at zero.",
                 .family = "elementwise",
                 .num_inputs = 1,
                 .infer = infer_unary_float,
                 .grad = grad,
                 .reference = run,
                 .cost = cost_per_output<8>,
                 .layout = elementwise_layout,
                 .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
