// (a - b)^2 with NumPy broadcasting; integers wrap around.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// da = 2 (a - b) dy = -db before the sums over broadcast dimensions.
Result<Grads> grad(GradBuilder& g) {
  const Value a = g.input(0), b = g.input(1);
  const Value d = g.scale(g.mul(g.grad_output(0), g.sub(a, b)), 2);
  Grads grads(2);
  if (g.needs_grad(0)) grads[0] = g.reduce_to_shape_of(d, a);
  if (g.needs_grad(1)) grads[1] = g.neg(g.reduce_to_shape_of(d, b));
  return grads;
}

void run(KernelArgs& a) {
  zip_numeric(a.in(0), a.in(1), a.out(0), [](auto v, auto w) {
    const auto d = wrapping(v) - wrapping(w);
    return d * d;
  });
}
}  // namespace

const OpDef kSquaredDifference{
    .name = "squared_difference",
    .doc = "Elementwise (a - b)^2 of one dtype, with NumPy broadcasting. Integers wrap around.",
    .family = "elementwise",
    .num_inputs = 2,
    .dtypes = kNumeric,
    .infer = infer_binary_numeric,
    .grad = grad,
    .reference = run,
    .cost = cost_per_output<2>,
    .layout = elementwise_layout,
    .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
