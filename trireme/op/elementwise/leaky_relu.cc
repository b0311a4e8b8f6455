// Elementwise x above zero, slope * x below.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = dy above zero, slope dy elsewhere.
Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0), dy = g.grad_output(0);
  const Value above = g.add(kGreater, {x, scalar_like(g, x, 0)});
  return Grads{g.add(kSelect, {above, dy, g.scale(dy, g.attrs().get_float("slope"))})};
}

void run(KernelArgs& a) {
  const double slope = a.attrs.get_float("slope");
  map_float(a.in(0), a.out(0), [slope](auto v) {
    using A = decltype(v);
    const A below = static_cast<A>(slope) * v;
    return v > 0 ? v : below;
  });
}
}  // namespace

const OpDef kLeakyRelu{.name = "leaky_relu",
                       .doc = "Elementwise x where x > 0, else slope * x.",
                       .family = "elementwise",
                       .num_inputs = 1,
                       .attrs = {{"slope", 0.01, "factor below zero"}},
                       .infer = infer_unary_float,
                       .grad = grad,
                       .reference = run,
                       .cost = cost_per_output<2>,
                       .layout = elementwise_layout,
                       .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
