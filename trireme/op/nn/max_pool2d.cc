// Max pooling over windows of x [N,C,H,W].
#include <limits>

#include "trireme/op/nn/pool2d.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, pool_geometry(in[0], attrs));
  return std::vector{TensorType{in[0].dtype, g.out_shape()}};
}

Result<Grads> grad(GradBuilder& g) {
  return Grads{g.add(kMaxPool2dGrad, {g.input(0), g.output(0), g.grad_output(0)}, g.attrs())};
}

void run(KernelArgs& a) {
  const Tensor& x = a.in(0);
  const PoolGeometry g = *pool_geometry(x.type(), a.attrs);
  const Strides& s = x.strides();
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* xs = x.data<T>();
    T* out = a.out(0).data<T>();
    for_each_maximum<T>(g, x, [&](auto n, auto c, auto, auto, auto h, auto w) {
      *out++ = xs[n * s[0] + c * s[1] + h * s[2] + w * s[3]];
    });
  });
}

// One comparison per element of every window.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return pool_cost(*pool_geometry(in[0], attrs), 1, 0, io_bytes(in, out));
}

// Padding never wins: below it there is nothing.
Cut cut(CutBuilder& b) {
  const int dim = b.option().outputs[0].dim;
  const PoolGeometry g = *pool_geometry(b.whole_input(0), b.attrs());
  const Value x = seen_by_windows(b, b.input(0), g, dim, -std::numeric_limits<double>::infinity());
  return std::vector{b.add(kMaxPool2d, {x}, unpadded_pool(b.attrs(), dim))};
}
}  // namespace

const OpDef kMaxPool2d{.name = "max_pool2d",
                       .doc = "Maximum over windows of x [N,C,H,W]; padding never wins, NaN does.",
                       .family = "nn",
                       .num_inputs = 1,
                       .attrs = pool_attrs(),
                       .infer = infer,
                       .grad = grad,
                       .reference = run,
                       .cost = cost,
                       .layout = pool_sides_layout,
                       .cut = cut};

}  // namespace trireme::op
