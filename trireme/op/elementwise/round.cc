// Elementwise nearest integer; halves go to the even one.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

void run(KernelArgs& a) {
  map_float(a.in(0), a.out(0), [](auto v) { return math::rint(v); });
}
}  // namespace

const OpDef kRound{.name = "round",
                   .doc = "Elementwise nearest integer; halves go to the even one. Gradient: none.",
                   .family = "elementwise",
                   .num_inputs = 1,
                   .infer = infer_unary_float,
                   .grad = flat<1>,
                   .reference = run,
                   .cost = cost_per_output<1>,
                   .layout = elementwise_layout,
                   .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
