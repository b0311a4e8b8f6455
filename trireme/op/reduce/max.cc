// Maximum over dimensions. NaN wins.
#include <algorithm>
#include <limits>

#include "trireme/op/detail/math.h"
#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  TR_ASSIGN_OR_RETURN(const Axes axes, resolve_axes(in[0], attrs));
  if (axes.count == 0) {
    return error(Code::kInvalid, "x: got {}, expected at least one element along the reduced dimensions",
                 in[0].to_string());
  }
  return infer_reduce(in[0], attrs);
}

// Maxima that tie share the gradient evenly. The mask "x is the maximum" is 1 - [y - x > 0].
Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0);
  const Value ones = g.ones_like(x);
  const Value below = g.add(kReluGrad, {ones, g.sub(broadcast_reduced(g, g.output(0)), x)});
  const Value mask = g.sub(ones, below);
  const Value ties = g.add(kSum, {mask}, g.attrs());
  return Grads{g.mul(mask, broadcast_reduced(g, g.add(kDiv, {g.grad_output(0), ties})))};
}

void run(KernelArgs& a) {
  const auto axes = resolve_axes(a.in(0).type(), a.attrs);
  dispatch_numeric(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    A lowest = std::numeric_limits<A>::lowest();
    if constexpr (kIsFloating<T>) lowest = -std::numeric_limits<A>::infinity();
    reduce<T>(
        a.in(0), *axes, a.out(0).data<T>(), lowest, [](A m, A v) { return v > m || math::isnan(v) ? v : m; },
        [](A m) { return static_cast<T>(m); });
  });
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  return reduce_layout(in, attrs, std::nullopt);
}
}  // namespace

const OpDef kMax{.name = "max",
                 .doc = "Maximum over dimensions; NaN wins. Gradient: ties share it evenly.",
                 .family = "reduce",
                 .num_inputs = 1,
                 .attrs = reduce_attrs(),
                 .dtypes = kNumeric,
                 .infer = infer,
                 .grad = grad,
                 .reference = run,
                 .cost = cost_per_input<1>,
                 .layout = layout};

}  // namespace trireme::op
