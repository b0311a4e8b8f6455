// Gradient of max_pool2d from (x, y, dy): each window's dy goes to its first maximum in row-major order.
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
  TR_RETURN_IF_ERROR(expect_type("dy", in[2], y));
  return std::vector{in[0]};
}

// Linear in dy; x and y only say where the maxima are.
Result<Grads> grad(GradBuilder& g) {
  Grads grads(3);
  if (g.needs_grad(2))
    grads[2] = g.add(kMaxPool2dGradGrad, {g.input(0), g.input(1), g.grad_output(0)}, g.attrs());
  return grads;
}

// One plane of sums, wide enough for any dtype.
std::size_t workspace(TypeSpan in, const Attrs&) {
  return static_cast<std::size_t>(in[0].shape[2] * in[0].shape[3]) * sizeof(double);
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &dy = a.in(2), &dx = a.out(0);
  const PoolGeometry g = *pool_geometry(x.type(), a.attrs);
  const Strides& ds = dy.strides();
  dispatch_float(x.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const std::span<A> plane(reinterpret_cast<A*>(a.workspace.data()), idx(g.h * g.w));
    PoolGeometry one = g;
    one.n = one.c = 1;
    for (std::int64_t p = 0; p < g.n * g.c; ++p) {
      const std::int64_t n = p / g.c, c = p % g.c;
      const T* dys = dy.data<T>() + n * ds[0] + c * ds[1];
      const Tensor image = x.slice(0, n, n + 1).slice(1, c, c + 1);
      std::fill(plane.begin(), plane.end(), A{0});
      for_each_maximum<T>(one, image, [&](auto, auto, auto oh, auto ow, auto h, auto w) {
        const A d = dys[oh * ds[2] + ow * ds[3]];
        plane[idx(h * g.w + w)] += d;
      });
      T* out = dx.data<T>() + p * g.h * g.w;
      for (const A v : plane) *out++ = static_cast<T>(v);
    }
  });
}

// A comparison per element of every window, an addition per window.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return pool_cost(*pool_geometry(in[0], attrs), 1, 1, io_bytes(in, out));
}

// All windows that hold elements of the part, with all that they see. Where these are windows of other
// positions too, their maxima are made again.
Cut cut(CutBuilder& b) {
  const int dim = b.option().outputs[0].dim;
  const Sliding s = sliding(*pool_geometry(b.whole_input(0), b.attrs()), dim);
  const Ranges parts = even_parts(s.in, b.num_parts()), windows = windows_over(s, parts);
  const Ranges seen = inputs_of(s, windows);
  const Attrs attrs = unpadded_pool(b.attrs(), dim);
  const Value x = window_of(b, b.input(0), dim, s.in, seen, -std::numeric_limits<double>::infinity());
  const Value dy = window_of(b, b.input(2), dim, s.out, windows, 0);
  const Value y = dy == b.input(2) ? b.input(1) : b.add(kMaxPool2d, {x}, attrs);
  return std::vector{crop(b, b.add(kMaxPool2dGrad, {x, y, dy}, attrs), dim, seen, parts)};
}
}  // namespace

const OpDef kMaxPool2dGrad{
    .name = "max_pool2d_grad",
    .doc = "Gradient of max_pool2d from (x, y, dy): to the first maximum of each window.",
    .family = "nn",
    .num_inputs = 3,
    .attrs = pool_attrs(),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .reference_workspace = workspace,
    .cost = cost,
    .layout = pool_sides_layout,
    .linear = {.inputs = 1U << 2},
    .cut = cut};

}  // namespace trireme::op
