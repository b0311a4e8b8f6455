// Elementwise x above zero, alpha (exp(x) - 1) below (Clevert et al., 2015).
#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  const double alpha = attrs.get_float("alpha");
  if (!(alpha >= 0)) return error(Code::kInvalid, "attribute 'alpha': got {}, expected at least 0", alpha);
  return infer_unary_float(in, attrs);
}

// By the output, whose sign is that of x: dx = dy above zero, (y + alpha) dy below.
Result<Grads> grad(GradBuilder& g) {
  const Value y = g.output(0), dy = g.grad_output(0);
  const Value below = g.mul(dy, g.sum(y, scalar_like(g, y, g.attrs().get_float("alpha"))));
  return Grads{g.add(kSelect, {g.add(kGreater, {y, scalar_like(g, y, 0)}), dy, below})};
}

void run(KernelArgs& a) {
  const double alpha = a.attrs.get_float("alpha");
  map_float(a.in(0), a.out(0), [alpha](auto v) {
    using A = decltype(v);
    const A below = static_cast<A>(alpha) * math::expm1(v);
    return v > 0 ? v : below;
  });
}
}  // namespace

const OpDef kElu{.name = "elu",
                 .doc = "Elementwise x where x > 0, else alpha * (exp(x) - 1).",
                 .family = "elementwise",
                 .num_inputs = 1,
                 .attrs = {{"alpha", 1.0, "the limit below zero is -alpha; at least 0"}},
                 .infer = infer,
                 .grad = grad,
                 .reference = run,
                 .cost = cost_per_output<10>,
                 .layout = elementwise_layout,
                 .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
