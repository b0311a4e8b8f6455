// Conversion between element types.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

#include <cmath>
#include <limits>

namespace trireme::op {
namespace {
using namespace detail;

// A conversion that is defined for every value: floating to integer truncates, saturates, and takes NaN to 0.
template <typename To, typename From>
To convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(v)) return 0;
    const double wide = static_cast<double>(v);
    // 2^63 as a double is just past the largest i64, so >= is the right test for every width.
    if (wide >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    if (wide <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return static_cast<To>(wide);
  } else {
    return static_cast<To>(v);
  }
}

Types infer(TypeSpan in, const Attrs& attrs) {
  const DType to = attrs.get_dtype("dtype");
  if (!is_any_dtype(in[0].dtype)) {
    return error(Code::kInvalid, "x: got {}, expected f32, f64, i64, i32, u8 or bool", in[0].to_string());
  }
  TR_RETURN_IF_ERROR(expect_supported("dtype", to));
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
        "Converts elements to another dtype. To integers: truncates towards zero, saturates, NaN becomes 0.",
    .family = "elementwise",
    .num_inputs = 1,
    .attrs = {{"dtype", DType::kF32, "dtype of the result", true}},
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost_per_output<1>,
    .layout = elementwise_layout,
    .traits = kElementwise};

}  // namespace trireme::op
