// Which elements are not numbers.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  return std::vector{TensorType{DType::kBool, in[0].shape}};
}

void run(KernelArgs& a) {
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    map<T, bool>(a.in(0), a.out(0), [](Acc<T> v) { return math::isnan(v); });
  });
}
}  // namespace

const OpDef kIsNan{.name = "is_nan",
                   .doc = "Elementwise bool: whether x is not a number.",
                   .family = "elementwise",
                   .num_inputs = 1,
                   .infer = infer,
                   .reference = run,
                   .cost = cost_per_output<0>,
                   .layout = elementwise_layout,
                   .traits = kElementwise};

}  // namespace trireme::op
