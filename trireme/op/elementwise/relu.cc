// Elementwise max(x, 0); NaN stays NaN.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// By the output, so that x need not stay alive: y > 0 exactly where x > 0.
Result<Grads> grad(GradBuilder& g) { return Grads{g.add(kReluGrad, {g.grad_output(0), g.output(0)})}; }

void run(KernelArgs& a) {
  map_numeric(a.in(0), a.out(0), [](auto v) { return v < 0 ? decltype(v){0} : v; });
}
}  // namespace

const OpDef kRelu{.name = "relu",
                  .doc = "Elementwise max(x, 0); NaN stays NaN.",
                  .family = "elementwise",
                  .num_inputs = 1,
                  .dtypes = kNumeric,
                  .infer = infer_unary_numeric,
                  .grad = grad,
                  .reference = run,
                  .cost = cost_per_output<1>,
                  .layout = elementwise_layout,
                  .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
