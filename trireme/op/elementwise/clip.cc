// Elementwise min(max(x, low), high); NaN stays NaN.
#include <limits>

#include "trireme/op/detail/convert.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  const double low = attrs.get_float("low"), high = attrs.get_float("high");
  if (!(low <= high))
    return error(Code::kInvalid, "attributes 'low', 'high': got {} and {}, expected low <= high", low, high);
  return infer_unary_numeric(in, attrs);
}

// The mask includes both ends, as in PyTorch.
Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0);
  const Value low = scalar_like(g, x, g.attrs().get_float("low"));
  const Value high = scalar_like(g, x, g.attrs().get_float("high"));
  const Value inside = g.add(kLogicalAnd, {g.add(kGreaterEqual, {x, low}), g.add(kLessEqual, {x, high})});
  return Grads{where(g, inside, g.grad_output(0))};
}

void run(KernelArgs& a) {
  const double first = a.attrs.get_float("low"), last = a.attrs.get_float("high");
  dispatch_numeric(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const A low = convert<T>(first), high = convert<T>(last);
    map<T, T>(a.in(0), a.out(0), [low, high](A v) {
      const A raised = v < low ? low : v;
      return static_cast<T>(raised > high ? high : raised);
    });
  });
}
}  // namespace

const OpDef kClip{
    .name = "clip",
    .doc =
        "Elementwise x held between low and high, both rounded to the dtype of x; NaN stays NaN. Gradient: "
        "where low <= x <= high.",
    .family = "elementwise",
    .num_inputs = 1,
    .attrs = {{"low", -std::numeric_limits<double>::infinity(), "least value of the result"},
              {"high", std::numeric_limits<double>::infinity(), "greatest value of the result"}},
    .dtypes = kNumeric,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost_per_output<2>,
    .layout = elementwise_layout,
    .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
