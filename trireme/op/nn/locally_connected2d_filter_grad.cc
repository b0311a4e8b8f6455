// Gradient of locally_connected2d with respect to the filter, from (x, dy).
#include "trireme/op/nn/conv_cut.h"
#include "trireme/op/nn/conv_work.h"
#include "trireme/op/nn/locally_connected.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<ConvGeometry> geometry(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("filter_shape", attrs.get_ints("filter_shape")));
  return local_geometry(in[0], {in[0].dtype, shape}, attrs);
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const ConvGeometry g, geometry(in, attrs));
  TR_RETURN_IF_ERROR(expect_type("dy", in[1], {in[0].dtype, g.out_shape()}));
  return std::vector{TensorType{in[0].dtype, {g.oh, g.ow, g.o, g.cg, g.kh, g.kw}}};
}

// Linear in x and in dy, as conv2d_filter_grad is.
Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0), dy = g.input(1), u = g.grad_output(0);
  Grads grads(2);
  if (g.needs_grad(0)) {
    Attrs attrs = conv_attrs_of(g.attrs());
    attrs.set("input_shape", dims_of(g.type(x).shape));
    grads[0] = g.add(kLocallyConnected2dInputGrad, {u, dy}, std::move(attrs));
  }
  if (g.needs_grad(1)) grads[1] = g.add(kLocallyConnected2d, {x, u}, conv_attrs_of(g.attrs()));
  return grads;
}

// The gradient of one tap at one position: a sum over samples, 0 where the tap falls outside the image.
template <typename T>
Acc<T> tap_sum(const ConvGeometry& g, const T* x, std::int64_t x_step, const T* dy, std::int64_t dy_step) {
  using A = Acc<T>;
  A total = 0;
  for (std::int64_t n = 0; n < g.n; ++n) {
    const A v = x[n * x_step], d = dy[n * dy_step];
    total += v * d;
  }
  return total;
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &dy = a.in(1);
  const ConvGeometry g = *local_geometry(x.type(), a.out(0).type(), a.attrs);
  const Strides &xs = x.strides(), &ys = dy.strides();
  dispatch_float(x.dtype(), [&]<typename T>() {
    T* out = a.out(0).data<T>();
    const auto taps_at = [&](std::int64_t oh, std::int64_t ow, std::int64_t o, std::int64_t c) {
      const T* d = dy.data<T>() + o * ys[1] + oh * ys[2] + ow * ys[3];
      const T* plane = x.data<T>() + c * xs[1];
      for (std::int64_t k = 0; k < g.kh * g.kw; ++k) {
        const std::int64_t ih = oh * g.stride_h - g.pad_h + k / g.kw * g.dilation_h;
        const std::int64_t iw = ow * g.stride_w - g.pad_w + k % g.kw * g.dilation_w;
        const bool outside = ih < 0 || ih >= g.h || iw < 0 || iw >= g.w;
        *out++ = outside ? static_cast<T>(0.0F)
                         : static_cast<T>(tap_sum<T>(g, plane + ih * xs[2] + iw * xs[3], xs[0], d, ys[0]));
      }
    };
    for (std::int64_t p = 0; p < g.oh * g.ow; ++p) {
      for (std::int64_t o = 0; o < g.o; ++o) {
        for (std::int64_t c = 0; c < g.cg; ++c) taps_at(p / g.ow, p % g.ow, o, g.first_channel(o) + c);
      }
    }
  });
}

// Every filter element sums over samples only.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  ConvGeometry g = *geometry(in, attrs);
  cost::OpCost cost = conv_cost(g, ConvPass::filter_grad, ConvMethod::direct, io_bytes(in, out));
  if (cost.work > 0) cost.depth = log_depth(static_cast<double>(g.n));
  return cost;
}

// Samples, whose pieces give partial sums; input channels; output channels. Rewritten: rows or columns, with
// the filters of the outputs.
std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  std::vector<LayoutOption> options{{{0, 0}, {kPartial}}};
  if (attrs.get_int("groups") == 1) {
    options.push_back({{1, kReplicate}, {3}});
    options.push_back({{kReplicate, 1}, {2}});
  }
  for (const int d : {2, 3}) options.push_back({{d, d}, {d - 2}, /*rewritten=*/true});
  return options;
}

Cut cut(CutBuilder& b) {
  const ConvGeometry g = *local_geometry(b.whole_input(0), b.whole_output(0), b.attrs());
  const Value dy = b.input(1);
  const int dim = b.option().inputs[0].dim;
  Shape filter = b.whole_output(0).shape;
  filter.set(dim - 2, b.type(dy).shape[dim]);
  Attrs attrs = unpadded(b.attrs(), dim);
  attrs.set("filter_shape", dims_of(filter));
  return std::vector{
      b.add(kLocallyConnected2dFilterGrad, {seen_inputs(b, b.input(0), g, dim), dy}, std::move(attrs))};
}
}  // namespace

const OpDef kLocallyConnected2dFilterGrad{
    .name = "locally_connected2d_filter_grad",
    .doc = "Gradient of locally_connected2d with respect to the filter, from (x, dy).",
    .family = "nn",
    .num_inputs = 2,
    .attrs = local_attrs("filter_shape"),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .linear = {.inputs = kAllInputs},
    .cut = cut,
    .shape_attr = "filter_shape"};

}  // namespace trireme::op
