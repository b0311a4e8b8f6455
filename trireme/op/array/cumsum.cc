// Running sums along a dimension, in the element type (16-bit floats: in f32); integers wrap around.
#include "trireme/op/array/array.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  TR_RETURN_IF_ERROR(resolve_axis("axis", attrs.get_int("axis"), in[0]).status());
  return std::vector{in[0]};
}

// Element i is in the sums from i on: sums of dy from the other end.
Result<Grads> grad(GradBuilder& g) {
  return Grads{g.add(kCumsum, {g.grad_output(0)},
                     {{"axis", g.attrs().get_int("axis")}, {"reverse", !g.attrs().get_bool("reverse")}})};
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  const int axis = *resolve_axis("axis", a.attrs.get_int("axis"), x.type());
  const bool reverse = a.attrs.get_bool("reverse");
  const std::int64_t size = x.shape()[axis], x_step = x.strides()[idx(axis)], y_step = y.strides()[idx(axis)];
  Shape rows = x.shape();
  rows.set(axis, size > 0 ? 1 : 0);
  dispatch_numeric(x.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    walk_rows<2>(rows, {x.strides(), y.strides()},
                 [&](const auto& offset, const auto& stride, std::int64_t n) {
                   for (std::int64_t r = 0; r < n; ++r) {
                     const T* p = x.data<T>() + offset[0] + r * stride[0];
                     T* q = y.data<T>() + offset[1] + r * stride[1];
                     A total{0};
                     for (std::int64_t k = 0; k < size; ++k) {
                       const std::int64_t i = reverse ? size - 1 - k : k;
                       const A v = p[i * x_step];
                       total = static_cast<A>(wrapping(total) + wrapping(v));
                       q[i * y_step] = static_cast<T>(total);
                     }
                   }
                 });
  });
}

// A scan by trees has the depth of a fold along the dimension.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const auto axis = resolve_axis("axis", attrs.get_int("axis"), in[0]);
  const double n = elems(in[0]);
  const double depth = n > 0 ? log_depth(static_cast<double>(in[0].shape[*axis])) : 0;
  return {.flops = n, .bytes = io_bytes(in, out), .work = n, .depth = depth};
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const auto axis = resolve_axis("axis", attrs.get_int("axis"), in[0]);
  if (!axis.ok()) return {};
  return same_dims_layout(in[0].shape.rank(), [&](int d) { return d != *axis; });
}
}  // namespace

const OpDef kCumsum{.name = "cumsum",
                    .doc = "Running sums of x along one dimension, from its beginning or from its end.",
                    .family = "array",
                    .num_inputs = 1,
                    .attrs = {{"axis", std::int64_t{-1}, "dimension; negative ones count from the end"},
                              {"reverse", false, "sums from the end"}},
                    .dtypes = kNumeric,
                    .infer = infer,
                    .grad = grad,
                    .reference = run,
                    .cost = cost,
                    .layout = layout,
                    .linear = {.inputs = 1}};

}  // namespace trireme::op
