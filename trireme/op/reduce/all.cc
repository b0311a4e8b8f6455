// Whether all elements are true, over dimensions. Of nothing: true.
#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

void run(KernelArgs& a) {
  reduce_to<bool>(a, true, [](bool s, bool v) { return s && v; });
}
}  // namespace

const OpDef kAll{.name = "all",
                 .doc = "Whether all elements are true, over dimensions. Of nothing: true.",
                 .family = "reduce",
                 .num_inputs = 1,
                 .attrs = reduce_attrs(),
                 .dtypes = only(DType::kBool),
                 .infer = infer_reduce_bool,
                 .reference = run,
                 .cost = cost_per_input<0>,
                 .layout = reduce_layout};

}  // namespace trireme::op
