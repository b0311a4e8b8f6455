// a to the power b with NumPy broadcasting, floating only.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// da = b a^(b-1) dy, and 0 where b is 0; db = y log(a) dy, and 0 where a is 0.
Result<Grads> grad(GradBuilder& g) {
  const Value a = g.input(0), b = g.input(1), dy = g.grad_output(0);
  Grads grads(2);
  if (g.needs_grad(0)) {
    const Value lower = g.add(kPow, {a, g.sub(b, scalar_like(g, b, 1))});
    const Value da = g.mul(dy, g.mul(b, lower));
    const Value moves = g.add(kNotEqual, {b, scalar_like(g, b, 0)});
    grads[0] = g.reduce_to_shape_of(where(g, moves, da), a);
  }
  if (g.needs_grad(1)) {
    const Value is_zero = g.add(kEqual, {a, scalar_like(g, a, 0)});
    const Value base = g.add(kSelect, {is_zero, scalar_like(g, a, 1), a});
    grads[1] = g.reduce_to_shape_of(g.mul(dy, g.mul(g.output(0), g.add(kLog, {base}))), b);
  }
  return grads;
}

void run(KernelArgs& a) {
  zip_float(a.in(0), a.in(1), a.out(0), [](auto v, auto w) { return math::pow(v, w); });
}
}  // namespace

const OpDef kPow{
    .name = "pow",
    .doc = "Elementwise a to the power b, with NumPy broadcasting; NaN where a < 0 and b is not whole.",
    .family = "elementwise",
    .num_inputs = 2,
    .infer = infer_binary_float,
    .grad = grad,
    .reference = run,
    .cost = cost_per_output<16>,
    .layout = elementwise_layout,
    .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
