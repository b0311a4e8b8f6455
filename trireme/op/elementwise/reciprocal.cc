// Elementwise 1 / x.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = -y^2 dy
Result<Grads> grad(GradBuilder& g) {
  return Grads{g.neg(g.mul(g.grad_output(0), g.add(kSquare, {g.output(0)})))};
}

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return 1 / v; });
}
}  // namespace

const OpDef kReciprocal{.name = "reciprocal",
                        .doc = "Elementwise 1 / x.",
                        .family = "elementwise",
                        .num_inputs = 1,
                        .infer = infer_unary_float,
                        .grad = grad,
                        .reference = run,
                        .cost = cost_per_output<1>,
                        .layout = elementwise_layout,
                        .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
