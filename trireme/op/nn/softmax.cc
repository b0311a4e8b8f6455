// Softmax along a dimension, with the maximum taken out so that nothing overflows.
#include "trireme/op/nn/softmax.h"

#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// dx = y (dy - sum(y dy))
Result<Grads> grad(GradBuilder& g) {
  const Value y = g.output(0), dy = g.grad_output(0);
  const std::vector<std::int64_t> axes{g.attrs().get_int("axis")};
  const Value dot = g.add(kSum, {g.mul(y, dy)}, {{"axes", axes}, {"keep_dims", true}});
  return Grads{g.mul(y, g.sub(dy, dot))};
}

// One row of exponentials, wide enough for any dtype.
std::size_t workspace(TypeSpan in, const Attrs& attrs) {
  const int axis = *resolve_axis("axis", attrs.get_int("axis"), in[0]);
  return static_cast<std::size_t>(in[0].shape[axis]) * sizeof(double);
}

void run(KernelArgs& a) {
  const int axis = *resolve_axis("axis", a.attrs.get_int("axis"), a.in(0).type());
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    A* powers = reinterpret_cast<A*>(a.workspace.data());
    for_each_row<T>(a.in(0), a.out(0), axis, [&](const Row<const T>& x, const Row<T>& y) {
      const A top = largest<T>(x);
      A total = 0;
      for (std::int64_t i = 0; i < x.n; ++i) {
        const A v = x[i];
        powers[i] = math::exp(v - top);
        total += powers[i];
      }
      for (std::int64_t i = 0; i < x.n; ++i) y[i] = static_cast<T>(powers[i] / total);
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return along_axis_cost(in, out, attrs, math::kTranscendentalFlops + 4, -1);
}

Cut cut(CutBuilder& b) {
  const CutRows rows = cut_rows(b, b.input(0), b.option().inputs[0].dim);
  return std::vector{cast_to(b, b.add(kDiv, {rows.powers, rows.total}), b.whole_output(0).dtype)};
}
}  // namespace

const OpDef kSoftmax{.name = "softmax",
                     .doc = "Softmax along a dimension: exp(x) / sum(exp(x)).",
                     .family = "nn",
                     .num_inputs = 1,
                     .attrs = axis_attr(),
                     .infer = infer_along_axis,
                     .grad = grad,
                     .reference = run,
                     .reference_workspace = workspace,
                     .cost = cost,
                     .layout = softmax_layout,
                     .cut = cut};

}  // namespace trireme::op
