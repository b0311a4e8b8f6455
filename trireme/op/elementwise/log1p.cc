// Elementwise log(1 + x), accurate near zero.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = dy / (1 + x)
Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0);
  return Grads{quotient(g, g.grad_output(0), g.sum(x, scalar_like(g, x, 1)))};
}

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return math::log1p(v); });
}
}  // namespace

const OpDef kLog1p{.name = "log1p",
                   .doc = "Elementwise log(1 + x), accurate near zero; NaN below -1.",
                   .family = "elementwise",
                   .num_inputs = 1,
                   .infer = infer_unary_float,
                   .grad = grad,
                   .reference = run,
                   .cost = cost_per_output<8>,
                   .layout = elementwise_layout,
                   .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
