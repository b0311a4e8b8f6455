// Gradient of conv2d with respect to x, from (filter, dy). Also known as transposed convolution.
#include "trireme/op/nn/conv2d.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<ConvGeometry> geometry(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("filter", in[0]));
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("input_shape", attrs.get_ints("input_shape")));
  return conv_geometry({in[0].dtype, shape}, in[0], attrs);
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const ConvGeometry g, geometry(in, attrs));
  TR_RETURN_IF_ERROR(expect_type("dy", in[1], {in[0].dtype, g.out_shape()}));
  return std::vector{TensorType{in[0].dtype, {g.n, g.c, g.h, g.w}}};
}

// dx is linear in the filter and in dy: with u the gradient of dx, they get what conv2d says about x = u.
Result<Grads> grad(GradBuilder& g) {
  const Value filter = g.input(0), dy = g.input(1), u = g.grad_output(0);
  Grads grads(2);
  if (g.needs_grad(0)) {
    Attrs attrs = conv_attrs_of(g.attrs());
    attrs.set("filter_shape", dims_of(g.type(filter).shape));
    grads[0] = g.add(kConv2dFilterGrad, {u, dy}, std::move(attrs));
  }
  if (g.needs_grad(1)) grads[1] = g.add(kConv2d, {u, filter}, conv_attrs_of(g.attrs()));
  return grads;
}

void run(KernelArgs& a) {
  const Tensor &filter = a.in(0), &dy = a.in(1), &dx = a.out(0);
  const ConvGeometry g = *conv_geometry(dx.type(), filter.type(), a.attrs);
  const Strides& fs = filter.strides();
  dispatch_float(dx.dtype(), [&]<typename T>() {
    const T *filters = filter.data<T>(), *dys = dy.data<T>();
    T* dxs = dx.data<T>();
    const auto all = dx.values<T>();
    std::fill(all.begin(), all.end(), T{0});
    const auto add_taps = [&](std::int64_t n, std::int64_t o, std::int64_t c) {
      for (std::int64_t kh = 0; kh < g.kh; ++kh) {
        for (std::int64_t kw = 0; kw < g.kw; ++kw) {
          const T f = filters[o * fs[0] + c * fs[1] + kh * fs[2] + kw * fs[3]];
          conv_rows(g, dx.strides(), dy.strides(), n, o, g.first_channel(o) + c, kh, kw,
                    [&](std::int64_t xo, std::int64_t step, std::int64_t yo, std::int64_t y_step,
                        std::int64_t count) {
                      T* p = dxs + xo;
                      const T* q = dys + yo;
                      if (step == 1 && y_step == 1) {
                        for (std::int64_t i = 0; i < count; ++i) p[i] += f * q[i];
                      } else {
                        for (std::int64_t i = 0; i < count; ++i) p[i * step] += f * q[i * y_step];
                      }
                    });
        }
      }
    };
    for (std::int64_t n = 0; n < g.n; ++n) {
      for (std::int64_t o = 0; o < g.o; ++o) {
        for (std::int64_t c = 0; c < g.cg; ++c) add_taps(n, o, c);
      }
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return {.flops = geometry(in, attrs)->flops(), .bytes = io_bytes(in, out)};
}

// Samples; input channels; output channels, whose pieces give partial sums.
std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  std::vector<LayoutOption> options{{{kReplicate, 0}, {0}}};
  if (attrs.get_int("groups") == 1) {
    options.push_back({{1, kReplicate}, {1}});
    options.push_back({{0, 1}, {kPartial}});
  }
  return options;
}
}  // namespace

const OpDef kConv2dInputGrad{.name = "conv2d_input_grad",
                             .doc = "Gradient of conv2d with respect to x, from (filter, dy).",
                             .family = "nn",
                             .num_inputs = 2,
                             .attrs = conv_attrs("input_shape"),
                             .infer = infer,
                             .grad = grad,
                             .reference = run,
                             .cost = cost,
                             .layout = layout,
                             .shape_attr = "input_shape"};

}  // namespace trireme::op
