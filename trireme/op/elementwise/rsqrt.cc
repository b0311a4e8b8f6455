// Elementwise 1 / sqrt(x); NaN below zero.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = -y^3 dy / 2
Result<Grads> grad(GradBuilder& g) {
  const Value y = g.output(0);
  return Grads{g.scale(g.mul(g.grad_output(0), g.mul(y, g.add(kSquare, {y}))), -0.5)};
}

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return 1 / math::sqrt(v); });
}
}  // namespace

const OpDef kRsqrt{.name = "rsqrt",
                   .doc = "Elementwise 1 / sqrt(x); NaN below zero, inf at zero.",
                   .family = "elementwise",
                   .num_inputs = 1,
                   .infer = infer_unary_float,
                   .grad = grad,
                   .reference = run,
                   .cost = cost_per_output<2>,
                   .layout = elementwise_layout,
                   .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
