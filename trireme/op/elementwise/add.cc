// a + b with NumPy broadcasting; integers wrap around.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<Grads> grad(GradBuilder& g) {
  const Value dy = g.grad_output(0);
  Grads grads(2);
  for (int i = 0; i < 2; ++i) {
    if (g.needs_grad(i)) grads[idx(i)] = g.reduce_to_shape_of(dy, g.input(i));
  }
  return grads;
}

void run(KernelArgs& a) {
  zip_numeric(a.in(0), a.in(1), a.out(0), [](auto v, auto w) { return wrapping(v) + wrapping(w); });
}
}  // namespace

const OpDef kAdd{.name = "add",
                 .doc = "Elementwise a + b of one dtype, with NumPy broadcasting. Integers wrap around.",
                 .family = "elementwise",
                 .num_inputs = 2,
                 .dtypes = kNumeric,
                 .infer = infer_binary_numeric,
                 .grad = grad,
                 .reference = run,
                 .cost = cost_per_output<1>,
                 .layout = elementwise_layout,
                 .linear = {.inputs = kAllInputs, .together = true},
                 .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
