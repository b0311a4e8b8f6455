// Mean over dimensions: the sum (as in sum.cc) divided by the number of addends. Nothing to average gives
// NaN.
#include <algorithm>

#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  return infer_reduce(in[0], attrs);
}

Result<Grads> grad(GradBuilder& g) {
  TR_ASSIGN_OR_RETURN(const Axes axes, resolve_axes(g.type(g.input(0)), g.attrs()));
  const double factor = 1.0 / static_cast<double>(std::max<std::int64_t>(axes.count, 1));
  return Grads{broadcast_reduced(g, g.scale(g.grad_output(0), factor))};
}

void run(KernelArgs& a) {
  const auto axes = resolve_axes(a.in(0).type(), a.attrs);
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    const auto out = a.out(0).values<T>();
    std::fill(out.begin(), out.end(), T{0});
    reduce<T>(a.in(0), *axes, out.data(), [](T s, T v) { return s + v; });
    for (T& v : out) v /= static_cast<T>(axes->count);
  });
}

// A cut along an averaged dimension would need uneven weights: not offered.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  return reduce_layout(in, attrs, std::nullopt);
}
}  // namespace

const OpDef kMean{
    .name = "mean",
    .doc = "Mean over dimensions: the sum divided by the count. NaN where there is nothing to average.",
    .family = "reduce",
    .num_inputs = 1,
    .attrs = reduce_attrs(),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost_per_input<1>,
    .layout = layout};

}  // namespace trireme::op
