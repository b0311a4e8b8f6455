// Whether any element is true, over dimensions. Of nothing: false.
#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

void run(KernelArgs& a) {
  reduce_to<bool>(a, false, [](bool s, bool v) { return s || v; });
}
}  // namespace

const OpDef kAny{.name = "any",
                 .doc = "Whether any element is true, over dimensions. Of nothing: false.",
                 .family = "reduce",
                 .num_inputs = 1,
                 .attrs = reduce_attrs(),
                 .dtypes = only(DType::kBool),
                 .infer = infer_reduce_bool,
                 .reference = run,
                 .cost = cost_per_input<0>,
                 .layout = reduce_layout};

}  // namespace trireme::op
