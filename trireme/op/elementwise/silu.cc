// Elementwise x * sigmoid(x), also called swish.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// With s = sigmoid(x): dx = s (1 + x (1 - s)) dy.
Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0), s = g.add(kSigmoid, {x}), one = scalar_like(g, x, 1);
  return Grads{g.mul(g.grad_output(0), g.mul(s, g.sum(one, g.mul(x, g.sub(one, s)))))};
}

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return v / (1 + math::exp(-v)); });
}
}  // namespace

const OpDef kSilu{.name = "silu",
                  .doc = "Elementwise x / (1 + exp(-x)), also called swish.",
                  .family = "elementwise",
                  .num_inputs = 1,
                  .infer = infer_unary_float,
                  .grad = grad,
                  .reference = run,
                  .cost = cost_per_output<11>,
                  .layout = elementwise_layout,
                  .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
