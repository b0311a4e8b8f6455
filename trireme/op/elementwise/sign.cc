// Elementwise -1, 0 or 1; NaN stays NaN.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

void run(KernelArgs& a) {
  map_numeric(a.in(0), a.out(0), [](auto v) {
    using A = decltype(v);
    const bool above = v > 0, below = v < 0;
    return above ? A(1) : below ? static_cast<A>(-1) : v;
  });
}
}  // namespace

const OpDef kSign{
    .name = "sign",
    .doc = "Elementwise -1, 0 or 1 by the sign of x; zeros and NaN stay what they are. Gradient: none.",
    .family = "elementwise",
    .num_inputs = 1,
    .dtypes = kNumeric,
    .infer = infer_unary_numeric,
    .grad = flat<1>,
    .reference = run,
    .cost = cost_per_output<2>,
    .layout = elementwise_layout,
    .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
