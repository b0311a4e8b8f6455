// Sum or maximum over the ranks of a group; every rank gets it.
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

bool is_sum(const Attrs& attrs) { return attrs.get_text("reduction") == "sum"; }

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  TR_RETURN_IF_ERROR(expect_slot(attrs));
  const std::string& reduction = attrs.get_text("reduction");
  if (!is_sum(attrs) && reduction != "max")
    return error(Code::kInvalid, "attribute 'reduction': got '{}', expected sum or max", reduction);
  return std::vector{in[0]};
}

// Every rank's x reaches every rank's y. The gradient is an exchange of its own, so it gets a slot of its
// own. That of a maximum would need to know which rank had it.
Result<Grads> grad(GradBuilder& g) {
  if (!is_sum(g.attrs()))
    return error(Code::kInvalid,
                 "[op allreduce] reduction 'max' has no gradient: got a path to the loss, "
                 "expected sum; stop the gradient before it");
  return Grads{g.add(kAllreduce, {g.grad_output(0)},
                     {{"label", grad_label(g.attrs())}, {"axis", g.attrs().get_text("axis")}})};
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  auto options = any_cut(in, attrs);
  pass_partial(is_sum(attrs) ? kPartial : kPartialMax, options);
  return options;
}
}  // namespace

const OpDef kAllreduce{
    .name = "allreduce",
    .doc = "Sum or maximum of x over the ranks of a group, on every rank.",
    .family = "comm",
    .num_inputs = 1,
    .attrs = {slot_attr(), label_attr(), mesh_axis_attr(), {"reduction", std::string("sum"), "sum or max"}},
    .dtypes = kNumeric,
    .infer = infer,
    .grad = grad,
    .cost = cost_per_output<1>,
    .layout = layout,
    .traits = kHostTraits};

}  // namespace trireme::op
