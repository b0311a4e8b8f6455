// Gradient of conv2d with respect to the filter, from (x, dy).
#include "trireme/op/nn/conv2d.h"
#include "trireme/op/nn/conv_work.h"
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

void run(KernelArgs& a) {
  conv_filter_grad(*conv_geometry(a.in(0).type(), a.out(0).type(), a.attrs), a.in(0), a.in(1), a.out(0));
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return conv_cost(*geometry(in, attrs), ConvPass::filter_grad, *conv_method(attrs.get_text("method")),
                   io_bytes(in, out));
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
