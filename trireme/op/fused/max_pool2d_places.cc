// Max pooling with the places of its maxima, and its gradient by them. Made by the pass `keep_places`, after
// gradients: they have none of their own.
#include "trireme/op/fused/max_pool2d_places.h"

#include <array>

#include "trireme/op/ops.h"

namespace trireme::op {
namespace detail {

bool has_places(const PoolGeometry& g) {
  return g.window_h <= kMostPlaces && g.window_w <= kMostPlaces && g.window_h * g.window_w <= kMostPlaces;
}

}  // namespace detail

namespace {
using namespace detail;

Result<PoolGeometry> small_geometry(const TensorType& x, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, pool_geometry(x, attrs));
  if (!has_places(g))
    return error(Code::kInvalid, "window: got {} x {}, expected at most {} elements", g.window_h, g.window_w,
                 kMostPlaces);
  return g;
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, small_geometry(in[0], attrs));
  return std::vector{TensorType{in[0].dtype, g.out_shape()}, TensorType{DType::kU8, g.out_shape()}};
}

void run(KernelArgs& a) {
  const Tensor& x = a.in(0);
  const PoolGeometry g = *pool_geometry(x.type(), a.attrs);
  const Strides& s = x.strides();
  auto* places = a.out(1).data<std::uint8_t>();
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* xs = x.data<T>();
    T* out = a.out(0).data<T>();
    for_each_maximum<T>(g, x, [&](auto n, auto c, auto oh, auto ow, auto h, auto w) {
      *out++ = xs[n * s[0] + c * s[1] + h * s[2] + w * s[3]];
      const std::int64_t row = h - oh * g.stride_h + g.pad_h, column = w - ow * g.stride_w + g.pad_w;
      *places++ = static_cast<std::uint8_t>(row * g.window_w + column);
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return pool_cost(*pool_geometry(in[0], attrs), 1, 0, io_bytes(in, out));
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) { return {{{0}, {0, 0}}, {{1}, {1, 1}}}; }

std::vector<AttrSpec> grad_attrs() {
  std::vector<AttrSpec> attrs = pool_attrs();
  attrs.push_back({"input_shape", std::vector<std::int64_t>{}, "shape of x", true});
  return attrs;
}

Result<PoolGeometry> grad_geometry(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Shape x, shape_from("input_shape", attrs.get_ints("input_shape")));
  return small_geometry({in[0].dtype, x}, attrs);
}

Types infer_grad(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("dy", in[0]));
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, grad_geometry(in, attrs));
  TR_RETURN_IF_ERROR(expect_shape("dy", in[0], g.out_shape()));
  TR_RETURN_IF_ERROR(expect_type("places", in[1], {DType::kU8, g.out_shape()}));
  return std::vector{TensorType{in[0].dtype, g.in_shape()}};
}

// One plane of sums, wide enough for any dtype.
std::size_t workspace_grad(TypeSpan in, const Attrs& attrs) {
  const PoolGeometry g = *grad_geometry(in, attrs);
  return idx(g.h * g.w) * sizeof(double);
}

void run_grad(KernelArgs& a) {
  const Tensor &dy = a.in(0), &places = a.in(1);
  const PoolGeometry g = *grad_geometry(std::array{dy.type(), places.type()}, a.attrs);
  const Strides &ps = places.strides(), &ds = dy.strides();
  dispatch_float(dy.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const std::span<A> plane(reinterpret_cast<A*>(a.workspace.data()), idx(g.h * g.w));
    T* out = a.out(0).data<T>();
    for (std::int64_t p = 0; p < g.n * g.c; ++p) {
      const std::uint8_t* at = places.data<std::uint8_t>() + p / g.c * ps[0] + p % g.c * ps[1];
      const T* dys = dy.data<T>() + p / g.c * ds[0] + p % g.c * ds[1];
      std::fill(plane.begin(), plane.end(), A{0});
      for (std::int64_t oh = 0; oh < g.oh; ++oh) {
        for (std::int64_t ow = 0; ow < g.ow; ++ow) {
          const std::int64_t place = at[oh * ps[2] + ow * ps[3]];
          const std::int64_t h = oh * g.stride_h - g.pad_h + place / g.window_w,
                             w = ow * g.stride_w - g.pad_w + place % g.window_w;
          const A d = dys[oh * ds[2] + ow * ds[3]];
          const bool inside = place < g.window_h * g.window_w && h >= 0 && h < g.h && w >= 0 && w < g.w;
          if (inside) plane[idx(h * g.w + w)] += d;
        }
      }
      for (const A v : plane) *out++ = static_cast<T>(v);
    }
  });
}

// An addition per window.
cost::OpCost cost_grad(TypeSpan in, TypeSpan out, const Attrs&) {
  const double windows = elems(in[0]);
  return {.flops = windows, .bytes = io_bytes(in, out), .work = windows, .depth = windows > 0 ? 1.0 : 0};
}
}  // namespace

const OpDef kMaxPool2dPlaces{
    .name = "max_pool2d_places",
    .doc = "max_pool2d of x, and where in its window each maximum is: row * window_w + column, u8.",
    .family = "nn",
    .num_inputs = 1,
    .num_outputs = 2,
    .attrs = pool_attrs(),
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = layout};

const OpDef kMaxPool2dPlacesGrad{
    .name = "max_pool2d_places_grad",
    .doc = "Gradient of max_pool2d from (dy, places): each window's dy goes to the place of its maximum.",
    .family = "nn",
    .num_inputs = 2,
    .attrs = grad_attrs(),
    .infer = infer_grad,
    .reference = run_grad,
    .reference_workspace = workspace_grad,
    .cost = cost_grad,
    .layout = pool_layout,
    .linear = {.inputs = 1},
    .shape_attr = "input_shape"};

}  // namespace trireme::op
