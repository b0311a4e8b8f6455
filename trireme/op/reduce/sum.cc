// Sum over dimensions. Adds in the element type, one element after the other in row-major order of x: plain,
// so that the bits are easy to reproduce. The rounding error grows with the number of addends; a caller that
// minds casts to f64.
#include <algorithm>

#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  return infer_reduce(in[0], attrs);
}

Result<Grads> grad(GradBuilder& g) { return Grads{broadcast_reduced(g, g.grad_output(0))}; }

void run(KernelArgs& a) {
  const auto axes = resolve_axes(a.in(0).type(), a.attrs);
  dispatch_numeric(a.in(0).dtype(), [&]<typename T>() {
    const auto out = a.out(0).values<T>();
    std::fill(out.begin(), out.end(), T{0});
    reduce<T>(a.in(0), *axes, out.data(), [](T s, T v) { return static_cast<T>(wrapping(s) + wrapping(v)); });
  });
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  return reduce_layout(in, attrs, kPartial);
}
}  // namespace

const OpDef kSum{
    .name = "sum",
    .doc = "Sum over dimensions, in the element type and in index order. Nothing to add gives 0.",
    .family = "reduce",
    .num_inputs = 1,
    .attrs = reduce_attrs(),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost_per_input<1>,
    .layout = layout};

}  // namespace trireme::op
