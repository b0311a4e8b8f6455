// Elementwise exp(x) - 1, accurate near zero.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = (1 + y) dy
Result<Grads> grad(GradBuilder& g) {
  const Value y = g.output(0);
  return Grads{g.mul(g.grad_output(0), g.sum(y, scalar_like(g, y, 1)))};
}

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return math::expm1(v); });
}
}  // namespace

const OpDef kExpm1{.name = "expm1",
                   .doc = "Elementwise exp(x) - 1, accurate near zero.",
                   .family = "elementwise",
                   .num_inputs = 1,
                   .infer = infer_unary_float,
                   .grad = grad,
                   .reference = run,
                   .cost = cost_per_output<8>,
                   .layout = elementwise_layout,
                   .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
