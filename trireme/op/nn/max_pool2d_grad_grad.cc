// Gradient of max_pool2d_grad with respect to dy, from (x, y, u): u at the first maximum of each window.
#include <limits>

#include "trireme/op/nn/pool2d.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, pool_geometry(in[0], attrs));
  const TensorType y{in[0].dtype, g.out_shape()};
  TR_RETURN_IF_ERROR(expect_type("y", in[1], y));
  TR_RETURN_IF_ERROR(expect_type("u", in[2], in[0]));
  return std::vector{y};
}

Result<Grads> grad(GradBuilder& g) {
  Grads grads(3);
  if (g.needs_grad(2))
    grads[2] = g.add(kMaxPool2dGrad, {g.input(0), g.input(1), g.grad_output(0)}, g.attrs());
  return grads;
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &u = a.in(2);
  const PoolGeometry g = *pool_geometry(x.type(), a.attrs);
  const Strides& s = u.strides();
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* us = u.data<T>();
    T* out = a.out(0).data<T>();
    for_each_maximum<T>(g, x, [&](auto n, auto c, auto, auto, auto h, auto w) {
      *out++ = us[n * s[0] + c * s[1] + h * s[2] + w * s[3]];
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return pool_cost(*pool_geometry(in[0], attrs), 1, 0, io_bytes(in, out));
}

Cut cut(CutBuilder& b) {
  const int dim = b.option().outputs[0].dim;
  const PoolGeometry g = *pool_geometry(b.whole_input(0), b.attrs());
  const Value x = seen_by_windows(b, b.input(0), g, dim, -std::numeric_limits<double>::infinity());
  const Value u = seen_by_windows(b, b.input(2), g, dim, 0);
  return std::vector{b.add(kMaxPool2dGradGrad, {x, b.input(1), u}, unpadded_pool(b.attrs(), dim))};
}
}  // namespace

const OpDef kMaxPool2dGradGrad{
    .name = "max_pool2d_grad_grad",
    .doc =
        "Gradient of max_pool2d_grad for dy, from (x, y, u): u where each window of x has its first maximum.",
    .family = "nn",
    .num_inputs = 3,
    .attrs = pool_attrs(),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = pool_sides_layout,
    .cut = cut};

}  // namespace trireme::op
