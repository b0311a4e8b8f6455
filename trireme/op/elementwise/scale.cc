// factor * x.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<Grads> grad(GradBuilder& g) { return Grads{g.scale(g.grad_output(0), g.attrs().get_float("factor"))}; }

void run(KernelArgs& a) {
  const double factor = a.attrs.get_float("factor");
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    map<T, T>(a.in(0), a.out(0), [f = static_cast<T>(factor)](T v) { return f * v; });
  });
}
}  // namespace

const OpDef kScale{.name = "scale",
                   .doc = "Elementwise factor * x; the factor is rounded to the dtype of x first.",
                   .family = "elementwise",
                   .num_inputs = 1,
                   .attrs = {{"factor", 1.0, "what x is multiplied by"}},
                   .infer = infer_unary_float,
                   .grad = grad,
                   .reference = run,
                   .cost = cost_per_output<1>,
                   .layout = elementwise_layout,
                   .linear = {.inputs = 1},
                   .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
