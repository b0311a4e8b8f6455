// Two-dimensional convolution (cross-correlation) of x [N,C,H,W] with filter [O,C/groups,KH,KW].
#include "trireme/op/nn/conv2d.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const ConvGeometry g, conv_geometry(in[0], in[1], attrs));
  return std::vector{TensorType{in[0].dtype, g.out_shape()}};
}

Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0), filter = g.input(1), dy = g.grad_output(0);
  Grads grads(2);
  if (g.needs_grad(0)) {
    Attrs attrs = conv_attrs_of(g.attrs());
    attrs.set("input_shape", dims_of(g.type(x).shape));
    grads[0] = g.add(kConv2dInputGrad, {filter, dy}, std::move(attrs));
  }
  if (g.needs_grad(1)) {
    Attrs attrs = conv_attrs_of(g.attrs());
    attrs.set("filter_shape", dims_of(g.type(filter).shape));
    grads[1] = g.add(kConv2dFilterGrad, {x, dy}, std::move(attrs));
  }
  return grads;
}

// Every output element adds its products in the order of (c, kh, kw).
void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &filter = a.in(1), &y = a.out(0);
  const ConvGeometry g = *conv_geometry(x.type(), filter.type(), a.attrs);
  const Strides& fs = filter.strides();
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T *xs = x.data<T>(), *filters = filter.data<T>();
    T* ys = y.data<T>();
    const auto all = y.values<T>();
    std::fill(all.begin(), all.end(), T{0});
    const auto add_taps = [&](std::int64_t n, std::int64_t o, std::int64_t c) {
      for (std::int64_t kh = 0; kh < g.kh; ++kh) {
        for (std::int64_t kw = 0; kw < g.kw; ++kw) {
          const T f = filters[o * fs[0] + c * fs[1] + kh * fs[2] + kw * fs[3]];
          conv_rows(
              g, x.strides(), y.strides(), n, o, g.first_channel(o) + c, kh, kw,
              [&](std::int64_t xo, std::int64_t step, std::int64_t yo, std::int64_t, std::int64_t count) {
                const T* p = xs + xo;
                T* q = ys + yo;
                if (step == 1) {
                  for (std::int64_t i = 0; i < count; ++i) q[i] += f * p[i];
                } else {
                  for (std::int64_t i = 0; i < count; ++i) q[i] += f * p[i * step];
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
  return {.flops = conv_geometry(in[0], in[1], attrs)->flops(), .bytes = io_bytes(in, out)};
}

// Samples; output channels; input channels, whose pieces give partial sums. Groups pin the channels together.
std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  std::vector<LayoutOption> options{{{0, kReplicate}, {0}}};
  if (attrs.get_int("groups") == 1) {
    options.push_back({{kReplicate, 0}, {1}});
    options.push_back({{1, 1}, {kPartial}});
  }
  return options;
}
}  // namespace

const OpDef kConv2d{
    .name = "conv2d",
    .doc = "Two-dimensional convolution of x [N,C,H,W] with filter [O,C/groups,KH,KW], padded with zeros.",
    .family = "nn",
    .num_inputs = 2,
    .attrs = conv_attrs(),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout};

}  // namespace trireme::op
