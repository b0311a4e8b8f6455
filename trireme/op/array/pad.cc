// A tensor with a border of one value.
#include "trireme/op/array/array.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  const Ints &low = attrs.get_ints("low"), &high = attrs.get_ints("high");
  TR_RETURN_IF_ERROR(expect_per_dim("low", low, in[0]));
  TR_RETURN_IF_ERROR(expect_per_dim("high", high, in[0]));
  Ints dims = dims_of(in[0].shape);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    TR_RETURN_IF_ERROR(expect_at_least("low", low[d], 0));
    TR_RETURN_IF_ERROR(expect_at_least("high", high[d], 0));
    if (__builtin_add_overflow(dims[d], low[d], &dims[d]) ||
        __builtin_add_overflow(dims[d], high[d], &dims[d])) {
      return error(Code::kInvalid,
                   "attributes 'low', 'high': got {} and {} for {}, expected a size below 2^63", low[d],
                   high[d], in[0].to_string());
    }
  }
  auto shape = Shape::checked(dims);
  if (!shape.ok()) return shape.status().with_prefix("the result: ");
  return std::vector{TensorType{in[0].dtype, *shape}};
}

// The border is constant. It is left off by its size, so that the sizes of x do not matter.
Result<Grads> grad(GradBuilder& g) {
  Ints end = g.attrs().get_ints("high");
  for (std::int64_t& e : end) e = -e;
  return Grads{g.add(kSlice, {g.grad_output(0)}, {{"begin", g.attrs().get_ints("low")}, {"end", end}})};
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  fill_with(y, a.attrs.get_float("value"));
  if (x.shape().num_elems() == 0) return;
  const Ints& low = a.attrs.get_ints("low");
  std::int64_t first = 0;
  for (int d = 0; d < x.shape().rank(); ++d) first += low[idx(d)] * y.strides()[idx(d)];
  copy_elements(x.dtype(), x.shape(), x.raw(), x.strides(), address(y, first), y.strides());
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const Ints &low = attrs.get_ints("low"), &high = attrs.get_ints("high");
  auto options =
      same_dims_layout(in[0].shape.rank(), [&](int d) { return low[idx(d)] == 0 && high[idx(d)] == 0; });
  // A border of zeros is the sum of such borders.
  if (attrs.get_float("value") == 0 && in[0].dtype != DType::kBool)
    options.push_back({{kPartial}, {kPartial}});
  return options;
}
}  // namespace

const OpDef kPad{
    .name = "pad",
    .doc = "x with a border of one value: low[d] elements before and high[d] after it in dimension d.",
    .family = "array",
    .num_inputs = 1,
    .attrs = {{"low", Ints{}, "elements before x, per dimension", true},
              {"high", Ints{}, "elements after x, per dimension", true},
              {"value", 0.0, "value of the border"}},
    .dtypes = kAnyDType,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = copy_cost,
    .layout = layout};

}  // namespace trireme::op
