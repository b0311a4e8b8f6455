// Logarithm of softmax along a dimension: (x - max) - log(sum(exp(x - max))).
#include "trireme/op/nn/softmax.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = dy - exp(y) sum(dy)
Result<Grads> grad(GradBuilder& g) {
  const Value y = g.output(0), dy = g.grad_output(0);
  const std::vector<std::int64_t> axes{g.attrs().get_int("axis")};
  const Value total = g.add(kSum, {dy}, {{"axes", axes}, {"keep_dims", true}});
  return Grads{g.sub(dy, g.mul(g.add(kExp, {y}), total))};
}

void run(KernelArgs& a) {
  const int axis = *resolve_axis("axis", a.attrs.get_int("axis"), a.in(0).type());
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    for_each_row<T>(a.in(0), a.out(0), axis, [&](const Row<const T>& x, const Row<T>& y) {
      const A top = largest<T>(x);
      A total = 0;
      for (std::int64_t i = 0; i < x.n; ++i) {
        const A v = x[i];
        total += math::exp(v - top);
      }
      const A log_total = math::log(total);
      for (std::int64_t i = 0; i < x.n; ++i) {
        const A v = x[i];
        y[i] = static_cast<T>(v - top - log_total);
      }
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return along_axis_cost(in, out, attrs, math::kTranscendentalFlops + 5, math::kTranscendentalFlops - 1);
}

Cut cut(CutBuilder& b) {
  const CutRows rows = cut_rows(b, b.input(0), b.option().inputs[0].dim);
  const Value y = b.add(kSub, {rows.shifted, b.add(kLog, {rows.total})});
  return std::vector{cast_to(b, y, b.whole_output(0).dtype)};
}
}  // namespace

const OpDef kLogSoftmax{.name = "log_softmax",
                        .doc = "Logarithm of softmax along a dimension: x - log(sum(exp(x))).",
                        .family = "nn",
                        .num_inputs = 1,
                        .attrs = axis_attr(),
                        .infer = infer_along_axis,
                        .grad = grad,
                        .reference = run,
                        .cost = cost,
                        .layout = softmax_layout,
                        .cut = cut};

}  // namespace trireme::op
