// a or b of bools with NumPy broadcasting.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

void run(KernelArgs& a) {
  zip<bool>(a.in(0), a.in(1), a.out(0), [](bool v, bool w) { return v || w; });
}
}  // namespace

const OpDef kLogicalOr{.name = "logical_or",
                       .doc = "Elementwise a or b of bools, with NumPy broadcasting.",
                       .family = "elementwise",
                       .num_inputs = 2,
                       .dtypes = only(DType::kBool),
                       .infer = infer_binary_bool,
                       .reference = run,
                       .cost = cost_per_output<0>,
                       .layout = elementwise_layout,
                       .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
