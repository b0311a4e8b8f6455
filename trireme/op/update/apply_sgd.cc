// Plain stochastic gradient descent: w = w - lr (g + weight_decay w).
#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("param", in[0]));
  TR_RETURN_IF_ERROR(expect_type("grad", in[1], in[0]));
  TR_RETURN_IF_ERROR(expect_type("lr", in[2], {in[0].dtype, {}}));
  TR_RETURN_IF_ERROR(expect_not_negative("weight_decay", attrs.get_float("weight_decay")));
  return std::vector{in[0]};
}

void run(KernelArgs& a) {
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    const T lr = a.in(2).data<T>()[0], decay = static_cast<T>(a.attrs.get_float("weight_decay"));
    if (decay == 0) {
      update<T>(a.in(0), a.in(1), [lr](T w, T g) { return w - lr * g; });
    } else {
      update<T>(a.in(0), a.in(1), [lr, decay](T w, T g) { return w - lr * (g + decay * w); });
    }
  });
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) { return update_layout(in, 1); }
}  // namespace

const OpDef kApplySgd{.name = "apply_sgd",
                      .doc = "w -= lr (g + weight_decay w), in place, from (param, grad, lr).",
                      .family = "update",
                      .num_inputs = 3,
                      .attrs = {{"weight_decay", 0.0, "L2 penalty added to the gradient"}},
                      .infer = infer,
                      .reference = run,
                      .cost = cost_per_output<4>,
                      .layout = layout,
                      .traits = kMutates | kStateful,
                      .mutated_inputs = {0}};

}  // namespace trireme::op
