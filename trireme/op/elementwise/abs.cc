// Elementwise |x|; the lowest integer stays what it is.
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = sign(x) dy; 0 at 0.
Result<Grads> grad(GradBuilder& g) { return Grads{g.mul(g.grad_output(0), g.add(kSign, {g.input(0)}))}; }

void run(KernelArgs& a) {
  map_numeric(a.in(0), a.out(0), [](auto v) {
    using A = decltype(v);
    if constexpr (!std::is_integral_v<A>) {
      return math::abs(v);
    } else if constexpr (std::is_unsigned_v<A>) {
      return v;
    } else {
      return v < 0 ? -wrapping(v) : wrapping(v);
    }
  });
}
}  // namespace

const OpDef kAbs{.name = "abs",
                 .doc = "Elementwise absolute value. Integers wrap around: the lowest one stays negative.",
                 .family = "elementwise",
                 .num_inputs = 1,
                 .dtypes = kNumeric,
                 .infer = infer_unary_numeric,
                 .grad = grad,
                 .reference = run,
                 .cost = cost_per_output<1>,
                 .layout = elementwise_layout,
                 .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
