// Adds a value to a variable.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_numeric("var", in[0]));
  TR_RETURN_IF_ERROR(expect_type("value", in[1], in[0]));
  return std::vector{in[0]};
}

void run(KernelArgs& a) {
  dispatch_numeric(a.in(0).dtype(), [&]<typename T>() {
    update<T>(a.in(0), a.in(1), [](Acc<T> t, Acc<T> v) { return static_cast<T>(wrapping(t) + wrapping(v)); });
  });
}
}  // namespace

const OpDef kAssignAdd{.name = "assign_add",
                       .doc = "var = var + value, in place. Integers wrap around.",
                       .family = "update",
                       .num_inputs = 2,
                       .dtypes = kNumeric,
                       .infer = infer,
                       .reference = run,
                       .cost = cost_per_output<1>,
                       .layout = update_layout,
                       .traits = kMutates | kStateful,
                       .mutated_inputs = {0}};

}  // namespace trireme::op
