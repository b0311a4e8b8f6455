// Gradient of bias_add with respect to b: dy summed over all dimensions but 1, in index order.
#include <algorithm>

#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_numeric("dy", in[0]));
  if (in[0].shape.rank() < 2) {
    return error(Code::kInvalid, "dy: got {}, expected at least 2 dimensions", in[0].to_string());
  }
  return std::vector{TensorType{in[0].dtype, {in[0].shape[1]}}};
}

Result<Grads> grad(GradBuilder& g) {
  const Shape shape = g.type(g.input(0)).shape;
  std::vector<std::int64_t> column(idx(shape.rank() - 1), 1);
  column[0] = shape[1];
  const Value u = g.add(kReshape, {g.grad_output(0)}, {{"shape", column}});
  return Grads{g.add(kBroadcastTo, {u}, {{"shape", dims_of(shape)}})};
}

void run(KernelArgs& a) {
  Axes axes;
  for (int d = 0; d < a.in(0).shape().rank(); ++d) axes.reduced[idx(d)] = d != 1;
  dispatch_numeric(a.in(0).dtype(), [&]<typename T>() {
    const auto out = a.out(0).values<T>();
    using A = Acc<T>;
    reduce<T>(
        a.in(0), axes, out.data(), A{0}, [](A s, A v) { return static_cast<A>(wrapping(s) + wrapping(v)); },
        [](A total) { return static_cast<T>(total); });
  });
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank(); ++d) options.push_back({{d}, {d == 1 ? 0 : kPartial}});
  return options;
}
}  // namespace

const OpDef kBiasGrad{
    .name = "bias_grad",
    .doc = "Gradient of bias_add for b: dy summed over all dimensions but 1, in index order.",
    .family = "nn",
    .num_inputs = 1,
    .dtypes = kNumeric,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost_per_input<1>,
    .layout = layout,
    .linear = {.inputs = 1}};

}  // namespace trireme::op
