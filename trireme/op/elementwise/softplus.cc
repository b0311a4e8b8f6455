// Elementwise log(1 + exp(x)), without overflow.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = sigmoid(x) dy
Result<Grads> grad(GradBuilder& g) { return Grads{g.mul(g.grad_output(0), g.add(kSigmoid, {g.input(0)}))}; }

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) {
    using A = decltype(v);
    return math::log1p(math::exp(-math::abs(v))) + (v < 0 ? A(0) : v);
  });
}
}  // namespace

const OpDef kSoftplus{.name = "softplus",
                      .doc = "Elementwise log(1 + exp(x)), without overflow.",
                      .family = "elementwise",
                      .num_inputs = 1,
                      .infer = infer_unary_float,
                      .grad = grad,
                      .reference = run,
                      .cost = cost_per_output<20>,
                      .layout = elementwise_layout,
                      .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
