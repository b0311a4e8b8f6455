// The identity, through which no gradient flows.
#include <cstring>

#include "trireme/op/detail/infer.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) { return std::vector{in[0]}; }

Result<Grads> grad(GradBuilder&) { return Grads{Value{}}; }

void run(KernelArgs& a) {
  // In place there is nothing to move.
  if (a.in(0).type().num_bytes() == 0 || a.in(0).raw() == a.out(0).raw()) return;
  copy_to_contiguous(a.in(0), a.out(0));
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank(); ++d) options.push_back({{d}, {d}});
  return options;
}
}  // namespace

const OpDef kStopGradient{.name = "stop_gradient",
                          .doc = "x itself, treated as a constant by differentiation.",
                          .family = "array",
                          .num_inputs = 1,
                          .dtypes = kAnyDType,
                          .infer = infer,
                          .grad = grad,
                          .reference = run,
                          .cost = copy_cost,
                          .layout = layout,
                          .linear = {.inputs = 1},
                          .traits = kInPlaceOk};

}  // namespace trireme::op
