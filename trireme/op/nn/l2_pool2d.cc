// L2 pooling over windows of x [N,C,H,W]: sqrt(eps + sum of squares).
#include "trireme/op/nn/pool2d.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, pool_geometry(in[0], attrs));
  const double eps = attrs.get_float("eps");
  if (!(eps >= 0)) return error(Code::kInvalid, "attribute 'eps': got {}, expected at least 0", eps);
  return std::vector{TensorType{in[0].dtype, g.out_shape()}};
}

// dx = x times the sum of dy / y over the windows that hold it. That sum is the gradient of an average over
// whole windows, times their size.
Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0);
  Attrs attrs = pool_attrs_of(g.attrs());
  const double size =
      static_cast<double>(attrs.get_int("window_h")) * static_cast<double>(attrs.get_int("window_w"));
  attrs.set("input_shape", dims_of(g.type(x).shape));
  const Value ratio = g.add(kDiv, {g.grad_output(0), g.output(0)});
  const Value spread = g.add(kAvgPool2dGrad, {ratio}, std::move(attrs));
  return Grads{g.mul(x, g.scale(spread, size))};
}

void run(KernelArgs& a) {
  const Tensor& x = a.in(0);
  const PoolGeometry g = *pool_geometry(x.type(), a.attrs);
  dispatch_float(x.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const A eps = static_cast<A>(a.attrs.get_float("eps"));
    map_windows<T>(g, x, a.out(0).data<T>(), [&](const T* plane, const Strides& s, const PoolWindow& v) {
      return math::sqrt(fold_window<T>(plane, s, v, [](A sum, A e) { return sum + e * e; }) + eps);
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return pool_cost(*pool_geometry(in[0], attrs), 2, 2, io_bytes(in, out));
}

Cut cut(CutBuilder& b) {
  const int dim = b.option().outputs[0].dim;
  const PoolGeometry g = *pool_geometry(b.whole_input(0), b.attrs());
  const Value x = seen_by_windows(b, b.input(0), g, dim, 0);
  return std::vector{b.add(kL2Pool2d, {x}, unpadded_pool(b.attrs(), dim))};
}

std::vector<AttrSpec> attrs() {
  std::vector<AttrSpec> specs = pool_attrs();
  specs.push_back({"eps", 1e-12, "added to the sum, so that the gradient at zero is zero"});
  return specs;
}
}  // namespace

const OpDef kL2Pool2d{.name = "l2_pool2d",
                      .doc =
                          "sqrt(eps + sum of squares) over windows of x [N,C,H,W]; PyTorch's lp_pool2d with "
                          "p = 2 has eps 0 and no padding.",
                      .family = "nn",
                      .num_inputs = 1,
                      .attrs = attrs(),
                      .infer = infer,
                      .grad = grad,
                      .reference = run,
                      .cost = cost,
                      .layout = pool_sides_layout,
                      .cut = cut};

}  // namespace trireme::op
