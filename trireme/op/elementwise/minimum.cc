// The smaller of a and b with NumPy broadcasting; NaN wins.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<Grads> grad(GradBuilder& g) { return extremum_grad(g, kGreater, kLess); }

void run(KernelArgs& a) {
  zip_numeric(a.in(0), a.in(1), a.out(0), [](auto v, auto w) { return v < w || math::isnan(v) ? v : w; });
}
}  // namespace

const OpDef kMinimum{.name = "minimum",
                     .doc =
                         "Elementwise smaller of a and b, with NumPy broadcasting; NaN wins. Gradient: a tie "
                         "gives half to each.",
                     .family = "elementwise",
                     .num_inputs = 2,
                     .dtypes = kNumeric,
                     .infer = infer_binary_numeric,
                     .grad = grad,
                     .reference = run,
                     .cost = cost_per_output<1>,
                     .layout = elementwise_layout,
                     .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
