// a * b with NumPy broadcasting; integers wrap around.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<Grads> grad(GradBuilder& g) {
  const Value dy = g.grad_output(0);
  Grads grads(2);
  if (g.needs_grad(0)) grads[0] = g.reduce_to_shape_of(g.mul(dy, g.input(1)), g.input(0));
  if (g.needs_grad(1)) grads[1] = g.reduce_to_shape_of(g.mul(dy, g.input(0)), g.input(1));
  return grads;
}

void run(KernelArgs& a) {
  zip_numeric(a.in(0), a.in(1), a.out(0), [](auto v, auto w) { return wrapping(v) * wrapping(w); });
}
}  // namespace

const OpDef kMul{.name = "mul",
                 .doc = "Elementwise a * b of one dtype, with NumPy broadcasting. Integers wrap around.",
                 .family = "elementwise",
                 .num_inputs = 2,
                 .dtypes = kNumeric,
                 .infer = infer_binary_numeric,
                 .grad = grad,
                 .reference = run,
                 .cost = cost_per_output<1>,
                 .layout = elementwise_layout,
                 .linear = {.inputs = kAllInputs},
                 .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
