// Dimensions backwards.
#include "trireme/op/array/array.h"
#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(resolve_axes(in[0], attrs).status());
  return std::vector{in[0]};
}

Result<Grads> grad(GradBuilder& g) { return Grads{g.add(kReverse, {g.grad_output(0)}, g.attrs())}; }

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  if (x.shape().num_elems() == 0) return;
  const auto axes = resolve_axes(x.type(), a.attrs);
  Strides strides = x.strides();
  std::int64_t first = 0;
  for (int d = 0; d < x.shape().rank(); ++d) {
    if (!axes->reduced[idx(d)]) continue;
    first += (x.shape()[d] - 1) * strides[idx(d)];
    strides[idx(d)] = -strides[idx(d)];
  }
  copy_elements(x.dtype(), x.shape(), address(x, first), strides, y.raw(), y.strides());
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const auto axes = resolve_axes(in[0], attrs);
  if (!axes.ok()) return {};
  return same_dims_layout(in[0].shape.rank(), [&](int d) { return !axes->reduced[idx(d)]; });
}
}  // namespace

const OpDef kReverse{
    .name = "reverse",
    .doc = "x with the order of elements reversed along dimensions.",
    .family = "array",
    .num_inputs = 1,
    .attrs = {{"axes", Ints{}, "dimensions to reverse, negative ones count from the end; empty: all"}},
    .dtypes = kAnyDType,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = copy_cost,
    .layout = layout,
    .linear = {.inputs = 1}};

}  // namespace trireme::op
