// a / b with NumPy broadcasting, floating only.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// da = dy / b, db = -y dy / b: uses y, so a need not stay alive for db.
Result<Grads> grad(GradBuilder& g) {
  const Value da = g.add(kDiv, {g.grad_output(0), g.input(1)});
  Grads grads(2);
  if (g.needs_grad(0)) grads[0] = g.reduce_to_shape_of(da, g.input(0));
  if (g.needs_grad(1)) grads[1] = g.neg(g.reduce_to_shape_of(g.mul(da, g.output(0)), g.input(1)));
  return grads;
}

void run(KernelArgs& a) {
  zip_float(a.in(0), a.in(1), a.out(0), [](auto v, auto w) { return v / w; });
}
}  // namespace

const OpDef kDiv{.name = "div",
                 .doc = "Elementwise a / b of one floating dtype, with NumPy broadcasting.",
                 .family = "elementwise",
                 .num_inputs = 2,
                 .infer = infer_binary_float,
                 .grad = grad,
                 .reference = run,
                 .cost = cost_per_output<1>,
                 .layout = elementwise_layout,
                 .linear = {.inputs = 1},
                 .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
