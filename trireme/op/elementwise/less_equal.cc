// Whether a <= b, element by element, with NumPy broadcasting.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

void run(KernelArgs& a) {
  compare_numeric(a.in(0), a.in(1), a.out(0), [](auto v, auto w) { return v <= w; });
}
}  // namespace

const OpDef kLessEqual{.name = "less_equal",
                       .doc = "Elementwise a <= b as bool, with NumPy broadcasting. False for NaN.",
                       .family = "elementwise",
                       .num_inputs = 2,
                       .dtypes = kNumeric,
                       .infer = infer_compare_numeric,
                       .reference = run,
                       .cost = cost_per_output<1>,
                       .layout = elementwise_layout,
                       .traits = kElementwise};

}  // namespace trireme::op
