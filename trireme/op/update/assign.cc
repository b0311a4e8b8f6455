// Writes a value into a variable.
#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_type("value", in[1], in[0]));
  return std::vector{in[0]};
}

void run(KernelArgs& a) {
  dispatch_any(a.in(0).dtype(),
               [&]<typename T>() { update<T>(a.in(0), a.in(1), [](const T&, T v) { return v; }); });
}
}  // namespace

const OpDef kAssign{.name = "assign",
                    .doc = "var = value, in place.",
                    .family = "update",
                    .num_inputs = 2,
                    .dtypes = kAnyDType,
                    .infer = infer,
                    .reference = run,
                    .cost = copy_cost,
                    .layout = update_layout,
                    .traits = kMutates | kStateful,
                    .mutated_inputs = {0}};

}  // namespace trireme::op
