// Gradient of conv2d with respect to x, from (filter, dy). Also known as transposed convolution.
#include "trireme/op/nn/conv2d.h"
#include "trireme/op/nn/conv_cut.h"
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

// Samples; input channels; output channels, whose pieces give partial sums. Rewritten: rows or columns, and
// groups.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options{{{kReplicate, 0}, {0}}};
  const auto g = geometry(in, attrs);
  if (!g.ok()) return options;
  if (g->groups == 1) {
    options.push_back({{1, kReplicate}, {1}});
    options.push_back({{0, 1}, {kPartial}});
  } else if (g->has_channels()) {
    options.push_back(group_option({{0, 1, g->og()}, {1, 1, g->og()}}, {1, 1, g->cg}));
  }
  for (const int d : {2, 3}) options.push_back({{kReplicate, d}, {d}, /*rewritten=*/true});
  return options;
}

Value cut_groups(CutBuilder& b, const ConvGeometry& g) {
  Shape shape = g.in_shape();
  shape.set(1, b.type(b.input(1)).shape[1] / g.og() * g.cg);
  Attrs attrs = with_groups_of(b.attrs(), g, shape[1]);
  attrs.set("input_shape", dims_of(shape));
  return b.add(kConv2dInputGrad, {b.input(0), b.input(1)}, std::move(attrs));
}

Cut cut(CutBuilder& b) {
  const ConvGeometry g = *conv_geometry(b.whole_output(0), b.whole_input(0), b.attrs());
  const int dim = b.option().outputs[0].dim;
  if (dim == 1) return std::vector{cut_groups(b, g)};
  const Sliding s = sliding(g, dim);
  const Backwards how = backwards(s, b.num_parts());
  const Value dy = window_of(b, b.input(1), dim, s.out, how.windows, 0);
  return std::vector{cut_input_grad(b, kConv2dInputGrad, b.input(0), dy, how, dim)};
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
                             .linear = {.inputs = kAllInputs},
                             .cut = cut,
                             .shape_attr = "input_shape"};

}  // namespace trireme::op
