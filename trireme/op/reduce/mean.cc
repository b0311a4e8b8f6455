// Mean over dimensions: the sum (as in sum.cc) divided by the number of addends. Nothing to average gives
// NaN.
#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<Grads> grad(GradBuilder& g) {
  const Value count = g.add(kCount, {g.input(0)}, {{"axes", g.attrs().get_ints("axes")}});
  return Grads{broadcast_reduced(g, g.add(kDiv, {g.grad_output(0), count}))};
}

void run(KernelArgs& a) {
  const auto axes = resolve_axes(a.in(0).type(), a.attrs);
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const A count = static_cast<A>(axes->count);
    reduce<T>(
        a.in(0), *axes, a.out(0).data<T>(), A{0}, [](A s, A v) { return s + v; },
        [count](A total) { return static_cast<T>(total / count); });
  });
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  return rewritten_layout(in, attrs, kPartial);
}

// The part's sum over the count of the whole: a partial sum of the mean.
Result<std::vector<Value>> cut(CutBuilder& b) {
  TR_ASSIGN_OR_RETURN(const Axes axes, resolve_axes(b.whole_input(0), b.attrs()));
  const Value count = b.add(kFill, {},
                            {{"value", static_cast<double>(axes.count)},
                             {"dtype", b.whole_input(0).dtype},
                             {"shape", std::vector<std::int64_t>{}}});
  return std::vector{b.add(kDiv, {b.add(kSum, {b.input(0)}, b.attrs()), count})};
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) { return reduce_cost(in, out, 1, 1); }
}  // namespace

const OpDef kMean{
    .name = "mean",
    .doc = "Mean over dimensions: the sum divided by the count. NaN where there is nothing to average.",
    .family = "reduce",
    .num_inputs = 1,
    .attrs = reduce_attrs(),
    .infer = infer_reduce_float,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .linear = {.inputs = 1},
    .cut = cut};

}  // namespace trireme::op
