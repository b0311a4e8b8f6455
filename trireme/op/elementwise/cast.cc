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

// Every value of `from` is one of `to`, and so are sums to the precision of `from`.
bool loses_nothing(DType from, DType to) {
  if (!is_floating(from) || !is_floating(to)) return from == to;
  return from == to || to == DType::kF64 || (to == DType::kF32 && from != DType::kF64);
}

// Partial sums that would be rounded before they are added must be added before.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  auto options = elementwise_layout(in, attrs);
  if (loses_nothing(in[0].dtype, attrs.get_dtype("dtype")) && in[0].dtype != DType::kBool)
    options.push_back({{kPartial}, {kPartial}});
  return options;
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
    .layout = layout,
    .traits = kElementwise};

}  // namespace trireme::op
