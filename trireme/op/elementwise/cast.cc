// Conversion between element types.
#include "trireme/op/detail/convert.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  const DType to = attrs.get_dtype("dtype");
  return std::vector{TensorType{to, in[0].shape}};
}

Result<Grads> grad(GradBuilder& g) {
  const DType from = g.type(g.input(0)).dtype;
  if (!is_floating(from) || !is_floating(g.attrs().get_dtype("dtype"))) return Grads{Value{}};
  return Grads{g.add(kCast, {g.grad_output(0)}, {{"dtype", from}})};
}

void run(KernelArgs& a) {
  dispatch_any(a.in(0).dtype(), [&]<typename From>() {
    dispatch_any(a.out(0).dtype(), [&]<typename To>() {
      map<From, To>(a.in(0), a.out(0), [](From v) { return convert<To>(v); });
    });
  });
}
}  // namespace

const OpDef kCast{
    .name = "cast",
    .doc =
        "Converts elements to another dtype. To integers: truncates towards zero, saturates, NaN becomes 0; "
        "integers among themselves wrap around. To fewer bits: rounds to the nearest even.",
    .family = "elementwise",
    .num_inputs = 1,
    .attrs = {{"dtype", DType::kF32, "dtype of the result", true}},
    .dtypes = kAnyDType,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost_per_output<0>,
    .layout = elementwise_layout,
    .traits = kElementwise};

}  // namespace trireme::op
