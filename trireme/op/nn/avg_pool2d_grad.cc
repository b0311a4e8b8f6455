// Gradient of avg_pool2d from dy: every window's dy / count goes to each of its elements.
#include "trireme/op/nn/avg_pool2d.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<PoolGeometry> geometry(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("dy", in[0]));
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("input_shape", attrs.get_ints("input_shape")));
  return pool_geometry({in[0].dtype, shape}, attrs);
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, geometry(in, attrs));
  TR_RETURN_IF_ERROR(expect_type("dy", in[0], {in[0].dtype, g.out_shape()}));
  return std::vector{TensorType{in[0].dtype, g.in_shape()}};
}

// Linear in dy: the average takes a gradient back.
Result<Grads> grad(GradBuilder& g) {
  Attrs attrs = pool_attrs_of(g.attrs());
  attrs.set("count_include_pad", g.attrs().get_bool("count_include_pad"));
  return Grads{g.add(kAvgPool2d, {g.grad_output(0)}, std::move(attrs))};
}

// The windows along one side that hold position `at`.
struct Range {
  std::int64_t begin, end;
};
Range windows_holding(std::int64_t at, std::int64_t window, std::int64_t stride, std::int64_t pad,
                      std::int64_t out) {
  const std::int64_t last = (at + pad) / stride, before = at + pad - window;  // a window that ends before it
  return {before < 0 ? 0 : before / stride + 1, std::min(last + 1, out)};
}

void run(KernelArgs& a) {
  const Tensor& dy = a.in(0);
  const PoolGeometry g = *pool_geometry(a.out(0).type(), a.attrs);
  const bool include_pad = a.attrs.get_bool("count_include_pad");
  const Strides& s = dy.strides();
  dispatch_float(dy.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    T* out = a.out(0).data<T>();
    const auto element = [&](const T* dys, std::int64_t h, std::int64_t w) {
      const Range rows = windows_holding(h, g.window_h, g.stride_h, g.pad_h, g.oh);
      const Range cols = windows_holding(w, g.window_w, g.stride_w, g.pad_w, g.ow);
      A total = 0;
      for (std::int64_t oh = rows.begin; oh < rows.end; ++oh) {
        for (std::int64_t ow = cols.begin; ow < cols.end; ++ow) {
          const A d = dys[oh * s[2] + ow * s[3]];
          total += d / static_cast<A>(window_count(g, window_at(g, oh, ow), include_pad));
        }
      }
      return static_cast<T>(total);
    };
    for_each_plane<T>(g, dy, [&](const T* dys, std::int64_t, std::int64_t) {
      for (std::int64_t i = 0; i < g.h * g.w; ++i) *out++ = element(dys, i / g.w, i % g.w);
    });
  });
}

// A division and an addition per element of every window; an element lies in few of them.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost cost = pool_cost(*geometry(in, attrs), 2, 0, io_bytes(in, out));
  cost.work = std::max(cost.work, elems(out[0]));
  return cost;
}

// All windows that hold elements of the part.
Cut cut(CutBuilder& b) {
  const int dim = b.option().outputs[0].dim;
  const PoolGeometry g = *pool_geometry(b.whole_output(0), b.attrs());
  const Sliding s = sliding(g, dim);
  const Ranges parts = even_parts(s.in, b.num_parts()), windows = windows_over(s, parts);
  const Ranges seen = inputs_of(s, windows);
  Shape shape = g.in_shape();
  shape.set(dim, seen.size(b.position()));
  Attrs attrs = unpadded_pool(b.attrs(), dim);
  attrs.set("input_shape", dims_of(shape));
  const Value dy = window_of(b, recounted(b, b.input(0), g, dim), dim, s.out, windows, 0);
  return std::vector{crop(b, b.add(kAvgPool2dGrad, {dy}, std::move(attrs)), dim, seen, parts)};
}

std::vector<AttrSpec> attrs() {
  std::vector<AttrSpec> specs = avg_pool_attrs();
  specs.push_back({"input_shape", std::vector<std::int64_t>{}, "shape of the result", true});
  return specs;
}
}  // namespace

const OpDef kAvgPool2dGrad{.name = "avg_pool2d_grad",
                           .doc = "Gradient of avg_pool2d from dy: dy / count to every element of a window.",
                           .family = "nn",
                           .num_inputs = 1,
                           .attrs = attrs(),
                           .infer = infer,
                           .grad = grad,
                           .reference = run,
                           .cost = cost,
                           .layout = pool_sides_layout,
                           .linear = {.inputs = 1},
                           .cut = cut,
                           .shape_attr = "input_shape"};

}  // namespace trireme::op
