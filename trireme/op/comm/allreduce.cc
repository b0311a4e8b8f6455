// Sum over the ranks of a group; every rank gets it.
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  TR_RETURN_IF_ERROR(expect_slot(attrs));
  return std::vector{in[0]};
}

// Every rank's x reaches every rank's y. The gradient is an exchange of its own, so it gets a slot of its
// own.
Result<Grads> grad(GradBuilder& g) {
  return Grads{g.add(kAllreduce, {g.grad_output(0)}, {{"label", grad_label(g.attrs())}})};
}
}  // namespace

const OpDef kAllreduce{.name = "allreduce",
                       .doc = "Sum of x over the ranks of a group, on every rank.",
                       .family = "comm",
                       .num_inputs = 1,
                       .attrs = {slot_attr(), label_attr()},
                       .dtypes = kNumeric,
                       .infer = infer,
                       .grad = grad,
                       .cost = cost_per_output<1>,
                       .layout = any_cut,
                       .traits = kHostTraits};

}  // namespace trireme::op
