// Elementwise error function.
#include <numbers>

#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = 2/sqrt(pi) exp(-x^2) dy
Result<Grads> grad(GradBuilder& g) {
  const Value bell = g.add(kExp, {g.neg(g.add(kSquare, {g.input(0)}))});
  return Grads{g.scale(g.mul(g.grad_output(0), bell), 2 * std::numbers::inv_sqrtpi)};
}

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return math::erf(v); });
}
}  // namespace

const OpDef kErf{.name = "erf",
                 .doc = "Elementwise error function.",
                 .family = "elementwise",
                 .num_inputs = 1,
                 .infer = infer_unary_float,
                 .grad = grad,
                 .reference = run,
                 .cost = cost_per_output<8>,
                 .layout = elementwise_layout,
                 .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
