// Gradient of max_pool2d from (x, y, dy): each window's dy goes to its first maximum in row-major order.
#include "trireme/op/nn/max_pool2d.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, pool_geometry(in[0], attrs));
  const TensorType y{in[0].dtype, {g.n, g.c, g.oh, g.ow}};
  TR_RETURN_IF_ERROR(expect_type("y", in[1], y));
  TR_RETURN_IF_ERROR(expect_type("dy", in[2], y));
  return std::vector{in[0]};
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &dy = a.in(2), &dx = a.out(0);
  const PoolGeometry g = *pool_geometry(x.type(), a.attrs);
  const Strides &ds = dy.strides(), &s = dx.strides();
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* dys = dy.data<T>();
    T* dxs = dx.data<T>();
    const auto all = dx.values<T>();
    std::fill(all.begin(), all.end(), T{0});
    for_each_window<T>(g, x, [&](auto n, auto c, auto oh, auto ow, auto h, auto w) {
      dxs[n * s[0] + c * s[1] + h * s[2] + w * s[3]] += dys[n * ds[0] + c * ds[1] + oh * ds[2] + ow * ds[3]];
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return pool_cost(in[0], attrs, io_bytes(in, out));
}
}  // namespace

const OpDef kMaxPool2dGrad{
    .name = "max_pool2d_grad",
    .doc = "Gradient of max_pool2d from (x, y, dy): to the first maximum of each window.",
    .family = "nn",
    .num_inputs = 3,
    .attrs = pool_attrs(),
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = pool_layout};

}  // namespace trireme::op
