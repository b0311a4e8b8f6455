// Elementwise the smallest integer that is not below x.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return math::ceil(v); });
}
}  // namespace

const OpDef kCeil{.name = "ceil",
                  .doc = "Elementwise the smallest integer that is not below x. Gradient: none.",
                  .family = "elementwise",
                  .num_inputs = 1,
                  .infer = infer_unary_float,
                  .grad = flat<1>,
                  .reference = run,
                  .cost = cost_per_output<1>,
                  .layout = elementwise_layout,
                  .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
