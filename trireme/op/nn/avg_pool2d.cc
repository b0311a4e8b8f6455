// Average over windows of x [N,C,H,W].
#include "trireme/op/nn/avg_pool2d.h"

#include "trireme/op/ops.h"

namespace trireme::op {
namespace detail {
std::vector<AttrSpec> avg_pool_attrs() {
  std::vector<AttrSpec> specs = pool_attrs();
  specs.push_back({"count_include_pad", true, "divide by the whole window, padding included"});
  return specs;
}

std::int64_t window_count(const PoolGeometry& g, const PoolWindow& v, bool include_pad) {
  return include_pad ? g.window_h * g.window_w : (v.h1 - v.h0) * (v.w1 - v.w0);
}

// Window o covers min(o stride - pad + span, size) - max(o stride - pad, 0) elements of the side.
Value recounted(CutBuilder& b, Value v, const PoolGeometry& g, int dim) {
  const Sliding s = sliding(g, dim);
  if (b.attrs().get_bool("count_include_pad") || s.pad == 0) return v;
  const auto number = [&](std::int64_t n) { return scalar(b, DType::kF64, static_cast<double>(n)); };
  const Value o = cast_to(b, own_indices(b, s.out), DType::kF64);
  const Value first = b.add(kSub, {b.add(kMul, {o, number(s.stride)}), number(s.pad)});
  const Value end = b.add(kMinimum, {b.add(kAdd, {first, number(s.span)}), number(s.in)});
  const Value count = b.add(kSub, {end, b.add(kMaximum, {first, number(0)})});
  const Value factor = b.add(kDiv, {number(s.span), count});
  const DType wide = b.type(widened(b, v)).dtype;
  const std::int64_t size = b.type(factor).shape[0];
  const Value column = shaped(b, cast_to(b, factor, wide), dim == 2 ? Shape{size, 1} : Shape{size});
  return cast_to(b, b.add(kMul, {widened(b, v), column}), b.type(v).dtype);
}
}  // namespace detail

namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, pool_geometry(in[0], attrs));
  return std::vector{TensorType{in[0].dtype, g.out_shape()}};
}

Result<Grads> grad(GradBuilder& g) {
  Attrs attrs = g.attrs();
  attrs.set("input_shape", dims_of(g.type(g.input(0)).shape));
  return Grads{g.add(kAvgPool2dGrad, {g.grad_output(0)}, std::move(attrs))};
}

void run(KernelArgs& a) {
  const Tensor& x = a.in(0);
  const PoolGeometry g = *pool_geometry(x.type(), a.attrs);
  const bool include_pad = a.attrs.get_bool("count_include_pad");
  dispatch_float(x.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    map_windows<T>(g, x, a.out(0).data<T>(), [&](const T* plane, const Strides& s, const PoolWindow& v) {
      const A total = fold_window<T>(plane, s, v, [](A sum, A e) { return sum + e; });
      return total / static_cast<A>(window_count(g, v, include_pad));
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return pool_cost(*pool_geometry(in[0], attrs), 1, 1, io_bytes(in, out));
}

Cut cut(CutBuilder& b) {
  const int dim = b.option().outputs[0].dim;
  const PoolGeometry g = *pool_geometry(b.whole_input(0), b.attrs());
  const Value x = seen_by_windows(b, b.input(0), g, dim, 0);
  return std::vector{recounted(b, b.add(kAvgPool2d, {x}, unpadded_pool(b.attrs(), dim)), g, dim)};
}
}  // namespace

const OpDef kAvgPool2d{.name = "avg_pool2d",
                       .doc =
                           "Average over windows of x [N,C,H,W]; padding counts as zeros, or not at all. "
                           "Of whole images: mean over dimensions 2 and 3.",
                       .family = "nn",
                       .num_inputs = 1,
                       .attrs = avg_pool_attrs(),
                       .infer = infer,
                       .grad = grad,
                       .reference = run,
                       .cost = cost,
                       .layout = pool_sides_layout,
                       .linear = {.inputs = 1},
                       .cut = cut};

}  // namespace trireme::op
