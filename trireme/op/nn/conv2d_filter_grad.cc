// Gradient of conv2d with respect to the filter, from (x, dy).
#include "trireme/op/nn/conv2d.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<ConvGeometry> geometry(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("filter_shape", attrs.get_ints("filter_shape")));
  return conv_geometry(in[0], {in[0].dtype, shape}, attrs);
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const ConvGeometry g, geometry(in, attrs));
  TR_RETURN_IF_ERROR(expect_type("dy", in[1], {in[0].dtype, g.out_shape()}));
  return std::vector{TensorType{in[0].dtype, {g.o, g.cg, g.kh, g.kw}}};
}

// The result is linear in x and in dy: with u its gradient, they get what conv2d says about filter = u.
Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0), dy = g.input(1), u = g.grad_output(0);
  Grads grads(2);
  if (g.needs_grad(0)) {
    Attrs attrs = conv_attrs_of(g.attrs());
    attrs.set("input_shape", dims_of(g.type(x).shape));
    grads[0] = g.add(kConv2dInputGrad, {u, dy}, std::move(attrs));
  }
  if (g.needs_grad(1)) grads[1] = g.add(kConv2d, {x, u}, conv_attrs_of(g.attrs()));
  return grads;
}

// Every filter element adds its products in the order of (n, oh, ow).
void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &dy = a.in(1), &df = a.out(0);
  const ConvGeometry g = *conv_geometry(x.type(), df.type(), a.attrs);
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T *xs = x.data<T>(), *dys = dy.data<T>();
    T* out = df.data<T>();
    const auto tap_sum = [&](std::int64_t o, std::int64_t c, std::int64_t kh, std::int64_t kw) {
      T total = 0;
      for (std::int64_t n = 0; n < g.n; ++n) {
        conv_rows(g, x.strides(), dy.strides(), n, o, c, kh, kw,
                  [&](std::int64_t xo, std::int64_t step, std::int64_t yo, std::int64_t y_step,
                      std::int64_t count) {
                    for (std::int64_t i = 0; i < count; ++i)
                      total += xs[xo + i * step] * dys[yo + i * y_step];
                  });
      }
      return total;
    };
    for (std::int64_t o = 0; o < g.o; ++o) {
      for (std::int64_t c = 0; c < g.cg; ++c) {
        for (std::int64_t k = 0; k < g.kh * g.kw; ++k) {
          *out++ = tap_sum(o, g.first_channel(o) + c, k / g.kw, k % g.kw);
        }
      }
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return {.flops = geometry(in, attrs)->flops(), .bytes = io_bytes(in, out)};
}

// Samples, whose pieces give partial sums; input channels; output channels.
std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  std::vector<LayoutOption> options{{{0, 0}, {kPartial}}};
  if (attrs.get_int("groups") == 1) {
    options.push_back({{1, kReplicate}, {1}});
    options.push_back({{kReplicate, 1}, {0}});
  }
  return options;
}
}  // namespace

const OpDef kConv2dFilterGrad{.name = "conv2d_filter_grad",
                              .doc = "Gradient of conv2d with respect to the filter, from (x, dy).",
                              .family = "nn",
                              .num_inputs = 2,
                              .attrs = conv_attrs("filter_shape"),
                              .infer = infer,
                              .grad = grad,
                              .reference = run,
                              .cost = cost,
                              .layout = layout,
                              .shape_attr = "filter_shape"};

}  // namespace trireme::op
