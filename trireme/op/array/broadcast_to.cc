// Repeats a tensor to a larger shape, as NumPy broadcasts it.
#include "trireme/op/array/array.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Shape to, shape_from("shape", attrs.get_ints("shape")));
  const auto joint = broadcast_shapes(in[0].shape, to);
  if (!joint.ok() || *joint != to) {
    return error(Code::kInvalid, "attribute 'shape': got {}, expected a shape that {} broadcasts to",
                 to.to_string(), in[0].shape.to_string());
  }
  return std::vector{TensorType{in[0].dtype, to}};
}

Result<Grads> grad(GradBuilder& g) { return Grads{g.reduce_to_shape_of(g.grad_output(0), g.input(0))}; }

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  copy_elements(x.dtype(), y.shape(), x.raw(), broadcast_strides(x, y.shape()), y.raw(), y.strides());
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const auto to = shape_from("shape", attrs.get_ints("shape"));
  std::vector<LayoutOption> options;
  for (int d = 0; to.ok() && d < to->rank(); ++d) {
    const int own = d - (to->rank() - in[0].shape.rank());
    options.push_back({{own >= 0 && in[0].shape[own] == (*to)[d] ? own : kReplicate}, {d}});
  }
  return options;
}
}  // namespace

const OpDef kBroadcastTo{.name = "broadcast_to",
                         .doc = "Repeats x to a larger shape by the rules of NumPy broadcasting.",
                         .family = "array",
                         .num_inputs = 1,
                         .attrs = {{"shape", std::vector<std::int64_t>{}, "shape of the result", true}},
                         .dtypes = kAnyDType,
                         .infer = infer,
                         .grad = grad,
                         .reference = run,
                         .cost = copy_cost,
                         .layout = layout,
                         .linear = {.inputs = 1},
                         .shape_attr = "shape"};

}  // namespace trireme::op
