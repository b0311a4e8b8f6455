// Gradient of conv2d with respect to the filter, from (x, dy).
#include "trireme/op/nn/conv2d.h"
#include "trireme/op/nn/conv_cut.h"
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

// Samples, whose pieces give partial sums; input channels; output channels. Rewritten: rows or columns, whose
// pieces give partial sums too, and groups.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options{{{0, 0}, {kPartial}}};
  const auto g = geometry(in, attrs);
  if (!g.ok()) return options;
  if (g->groups == 1) {
    options.push_back({{1, kReplicate}, {1}});
    options.push_back({{kReplicate, 1}, {0}});
  } else if (g->has_channels()) {
    options.push_back(group_option({{1, 1, g->cg}, {1, 1, g->og()}}, {0, 1, g->og()}));
  }
  for (const int d : {2, 3}) options.push_back({{d, d}, {kPartial}, /*rewritten=*/true});
  return options;
}

Cut cut(CutBuilder& b) {
  const ConvGeometry g = *conv_geometry(b.whole_input(0), b.whole_output(0), b.attrs());
  const Value x = b.input(0), dy = b.input(1);
  const int dim = b.option().inputs[0].dim;
  const bool by_groups = dim == 1;
  Attrs attrs = by_groups ? with_groups_of(b.attrs(), g, b.type(x).shape[1]) : unpadded(b.attrs(), dim);
  attrs.set("filter_shape", dims_of({by_groups ? b.type(dy).shape[1] : g.o, g.cg, g.kh, g.kw}));
  const Value seen = by_groups ? x : seen_inputs(b, x, g, dim);
  return std::vector{b.add(kConv2dFilterGrad, {seen, dy}, std::move(attrs))};
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
                              .linear = {.inputs = kAllInputs},
                              .cut = cut,
                              .shape_attr = "filter_shape"};

}  // namespace trireme::op
