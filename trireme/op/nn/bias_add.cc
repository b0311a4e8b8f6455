// Adds a vector along dimension 1 (channels, features).
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  if (in[0].shape.rank() < 2) {
    return error(Code::kInvalid, "x: got {}, expected at least 2 dimensions", in[0].to_string());
  }
  TR_RETURN_IF_ERROR(expect_type("b", in[1], {in[0].dtype, {in[0].shape[1]}}));
  return std::vector{in[0]};
}

Result<Grads> grad(GradBuilder& g) {
  return Grads{g.grad_output(0), g.needs_grad(1) ? g.add(kBiasGrad, {g.grad_output(0)}) : Value{}};
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &b = a.in(1), &y = a.out(0);
  Strides along{};
  along[1] = b.strides()[0];
  dispatch_numeric(x.dtype(), [&]<typename T>() {
    const T *xs = x.data<T>(), *bs = b.data<T>();
    T* ys = y.data<T>();
    walk_rows<3>(x.shape(), {x.strides(), along, y.strides()},
                 [&](const auto& offset, const auto& stride, std::int64_t n) {
                   for (std::int64_t i = 0; i < n; ++i) {
                     ys[offset[2] + i * stride[2]] = static_cast<T>(wrapping(xs[offset[0] + i * stride[0]]) +
                                                                    wrapping(bs[offset[1] + i * stride[1]]));
                   }
                 });
  });
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank(); ++d) options.push_back({{d, d == 1 ? 0 : kReplicate}, {d}});
  return options;
}
}  // namespace

const OpDef kBiasAdd{.name = "bias_add",
                     .doc = "x + b with the vector b along dimension 1 of x.",
                     .family = "nn",
                     .num_inputs = 2,
                     .dtypes = kNumeric,
                     .infer = infer,
                     .grad = grad,
                     .reference = run,
                     .cost = cost_per_output<1>,
                     .layout = layout,
                     .linear = {.inputs = kAllInputs, .together = true},
                     .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
