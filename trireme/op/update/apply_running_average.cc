// A running average, in place: running = (1 - momentum) running + momentum value (PyTorch's momentum).
#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("running", in[0]));
  TR_RETURN_IF_ERROR(expect_type("value", in[1], in[0]));
  TR_RETURN_IF_ERROR(expect_not_negative(attrs, {"momentum"}));
  return std::vector{in[0]};
}

void run(KernelArgs& a) {
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const double momentum = a.attrs.get_float("momentum");
    const A gain = static_cast<A>(momentum), keep = static_cast<A>(1 - momentum);
    update<T>(a.in(0), a.in(1), [=](A r, A v) { return static_cast<T>(keep * r + gain * v); });
  });
}

}  // namespace

const OpDef kApplyRunningAverage{.name = "apply_running_average",
                                 .doc = "running = (1 - momentum) running + momentum value, in place.",
                                 .family = "update",
                                 .num_inputs = 2,
                                 .attrs = {{"momentum", 0.1, "weight of the new value"}},
                                 .infer = infer,
                                 .reference = run,
                                 .cost = cost_per_output<3>,
                                 .layout = update_layout,
                                 .traits = kMutates | kStateful,
                                 .mutated_inputs = {0}};

}  // namespace trireme::op
