// How many elements of x fall on one element of a reduction over `axes`, as a scalar of x's dtype. Reads no
// element of x: it lets a gradient divide by a batch size that is not known when the graph is built.
#include "trireme/op/detail/convert.h"
#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  TR_RETURN_IF_ERROR(resolve_axes(in[0], attrs).status());
  return std::vector{TensorType{in[0].dtype, {}}};
}

// A count does not change with x.
Result<Grads> grad(GradBuilder&) { return Grads{Value{}}; }

void run(KernelArgs& a) {
  const double count = static_cast<double>(resolve_axes(a.in(0).type(), a.attrs)->count);
  dispatch_float(a.out(0).dtype(), [&]<typename T>() { a.out(0).data<T>()[0] = convert<T>(count); });
}

cost::OpCost cost(TypeSpan, TypeSpan out, const Attrs&) {
  return {.bytes = static_cast<double>(out[0].num_bytes()), .work = 1, .depth = 1};
}

// Cutting a counted dimension cuts the count, and cutting another one does not change it.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const auto axes = resolve_axes(in[0], attrs);
  std::vector<LayoutOption> options;
  for (int d = 0; axes.ok() && d < in[0].shape.rank(); ++d) {
    options.push_back({{d}, {axes->reduced[idx(d)] ? kPartial : kReplicate}});
  }
  return options;
}
}  // namespace

const OpDef kCount{
    .name = "count",
    .doc = "Number of elements of x along dimensions, as a scalar of its dtype; reads no element.",
    .family = "array",
    .num_inputs = 1,
    .attrs = {reduce_attrs()[0]},
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .traits = kTypesOnly};

}  // namespace trireme::op
