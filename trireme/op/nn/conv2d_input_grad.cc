// Gradient of conv2d with respect to x, from (filter, dy). Also known as transposed convolution.
#include "trireme/op/nn/conv2d.h"
#include "trireme/op/nn/conv_work.h"
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
  const ConvGeometry g = *conv_geometry(a.out(0).type(), a.in(0).type(), a.attrs);
  conv_input_grad(g, a.in(0), shared_filter(a.in(0)), a.in(1), a.out(0));
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return conv_cost(*geometry(in, attrs), ConvPass::input_grad, *conv_method(attrs.get_text("method")),
                   io_bytes(in, out));
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
