// Elementwise cosine.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = -sin(x) dy
Result<Grads> grad(GradBuilder& g) {
  return Grads{g.neg(g.mul(g.grad_output(0), g.add(kSin, {g.input(0)})))};
}

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return math::cos(v); });
}
}  // namespace

const OpDef kCos{.name = "cos",
                 .doc = "Elementwise cosine (radians).",
                 .family = "elementwise",
                 .num_inputs = 1,
                 .infer = infer_unary_float,
                 .grad = grad,
                 .reference = run,
                 .cost = cost_per_output<8>,
                 .layout = elementwise_layout,
                 .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
