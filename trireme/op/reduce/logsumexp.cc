// log(sum(exp(x))) over dimensions, without overflow: the maximum is taken out first.
#include <limits>

#include "trireme/op/detail/math.h"
#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

// The derivative is the softmax: dx = exp(x - y) dy.
Result<Grads> grad(GradBuilder& g) {
  const Value share = g.add(kExp, {g.sub(g.input(0), broadcast_reduced(g, g.output(0)))});
  return Grads{g.mul(share, broadcast_reduced(g, g.grad_output(0)))};
}

void run(KernelArgs& a) {
  const auto axes = resolve_axes(a.in(0).type(), a.attrs);
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    reduce_each<T>(a.in(0), *axes, a.out(0).data<T>(), [](auto&& visit) {
      A top = -std::numeric_limits<A>::infinity();
      visit([&](A v) { top = v > top || math::isnan(v) ? v : top; });
      if (!math::isfinite(top)) return static_cast<T>(top);
      A total = 0;
      visit([&](A v) { total += math::exp(v - top); });
      return static_cast<T>(top + math::log(total));
    });
  });
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  return rewritten_layout(in, attrs, kReplicate);
}

// The maximum over all positions is taken out, then their sums are added. Where it is not finite, it is the
// result.
Result<std::vector<Value>> cut(CutBuilder& b) {
  const Value x = b.input(0);
  const Attrs kept{{"axes", b.attrs().get_ints("axes")}, {"keep_dims", true}};
  const Value top = b.reduce(b.add(kMax, {x}, kept), kPartialMax);
  const Value part = b.add(kSum, {b.add(kExp, {b.add(kSub, {x, top})})}, kept);
  const Value total = b.add(kAdd, {top, b.add(kLog, {b.reduce(part, kPartial)})});
  const Value result = b.add(kSelect, {b.add(kIsFinite, {top}), total, top});
  return std::vector{b.add(kReshape, {result}, {{"shape", dims_of(b.whole_output(0).shape)}})};
}

// Per element: compare, subtract, exp, add; per result: log, add.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  const bool empty = elems(in[0]) == 0;
  return reduce_cost(in, out, 3 + math::kTranscendentalFlops, empty ? 0 : 1 + math::kTranscendentalFlops);
}
}  // namespace

const OpDef kLogsumexp{.name = "logsumexp",
                       .doc = "log(sum(exp(x))) over dimensions, without overflow. Of nothing: -inf.",
                       .family = "reduce",
                       .num_inputs = 1,
                       .attrs = reduce_attrs(),
                       .infer = infer_reduce_float,
                       .grad = grad,
                       .reference = run,
                       .cost = cost,
                       .layout = layout,
                       .cut = cut};

}  // namespace trireme::op
