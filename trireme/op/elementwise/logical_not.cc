// The opposite of each bool.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

void run(KernelArgs& a) {
  map<bool, bool>(a.in(0), a.out(0), [](bool v) { return !v; });
}
}  // namespace

const OpDef kLogicalNot{.name = "logical_not",
                        .doc = "Elementwise opposite of bools.",
                        .family = "elementwise",
                        .num_inputs = 1,
                        .dtypes = only(DType::kBool),
                        .infer = infer_unary_bool,
                        .reference = run,
                        .cost = cost_per_output<0>,
                        .layout = elementwise_layout,
                        .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
