// A tensor repeated along its dimensions.
#include "trireme/op/array/array.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  const Ints& times = attrs.get_ints("times");
  TR_RETURN_IF_ERROR(expect_per_dim("times", times, in[0]));
  Ints dims = dims_of(in[0].shape);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    TR_RETURN_IF_ERROR(expect_at_least("times", times[d], 0));
    if (__builtin_mul_overflow(dims[d], times[d], &dims[d])) {
      return error(Code::kInvalid, "attribute 'times': got {} for {}, expected a size below 2^63", times[d],
                   in[0].to_string());
    }
  }
  auto shape = Shape::checked(dims);
  if (!shape.ok()) return shape.status().with_prefix("the result: ");
  return std::vector{TensorType{in[0].dtype, *shape}};
}

// The sum of the repetitions, one dimension after the other: seen as [outer, times, the rest].
Result<Grads> grad(GradBuilder& g) {
  const Shape x = g.type(g.input(0)).shape;
  const Ints& times = g.attrs().get_ints("times");
  Value dx = g.grad_output(0);
  std::int64_t outer = 1;
  for (int d = 0; d < x.rank(); ++d) {
    if (times[idx(d)] != 1) {
      std::int64_t inner = x[d];
      for (int e = d + 1; e < x.rank(); ++e) inner *= x[e] * times[idx(e)];
      dx = g.add(kReshape, {dx}, {{"shape", Ints{outer, times[idx(d)], inner}}});
      dx = g.add(kSum, {dx}, {{"axes", Ints{1}}});
    }
    outer *= x[d];
  }
  return Grads{g.type(dx).shape == x ? dx : g.add(kReshape, {dx}, {{"shape", dims_of(x)}})};
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  if (y.shape().num_elems() == 0) return;
  Strides tile{};  // in y, from one repetition to the next
  for (int d = 0; d < x.shape().rank(); ++d) tile[idx(d)] = x.shape()[d] * y.strides()[idx(d)];
  walk_rows<1>(Shape(a.attrs.get_ints("times")), {tile},
               [&](const auto& offset, const auto& stride, std::int64_t n) {
                 for (std::int64_t i = 0; i < n; ++i)
                   copy_elements(x.dtype(), x.shape(), x.raw(), x.strides(),
                                 address(y, offset[0] + i * stride[0]), y.strides());
               });
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const Ints& times = attrs.get_ints("times");
  auto options = same_dims_layout(in[0].shape.rank(), [&](int d) { return times[idx(d)] > 0; });
  // The repetitions are blocks.
  for (LayoutOption& o : options) o.outputs[0].blocks = static_cast<int>(times[idx(o.inputs[0].dim)]);
  return options;
}
}  // namespace

const OpDef kTile{.name = "tile",
                  .doc = "x repeated times[d] times along dimension d.",
                  .family = "array",
                  .num_inputs = 1,
                  .attrs = {{"times", Ints{}, "repetitions per dimension; 0: none is left", true}},
                  .dtypes = kAnyDType,
                  .infer = infer,
                  .grad = grad,
                  .reference = run,
                  .cost = copy_cost,
                  .layout = layout,
                  .linear = {.inputs = 1}};

}  // namespace trireme::op
