// Two-dimensional convolution (cross-correlation) of x [N,C,H,W] with filter [O,C/groups,KH,KW].
#include "trireme/op/nn/conv2d.h"
#include "trireme/op/nn/conv_cut.h"
#include "trireme/op/nn/conv_work.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const ConvGeometry g, conv_geometry(in[0], in[1], attrs));
  return std::vector{TensorType{in[0].dtype, g.out_shape()}};
}

Result<Grads> grad(GradBuilder& g) { return conv_grads(g, kConv2dInputGrad, kConv2dFilterGrad); }

void run(KernelArgs& a) {
  const ConvGeometry g = *conv_geometry(a.in(0).type(), a.in(1).type(), a.attrs);
  conv_forward(g, a.in(0), a.in(1), shared_filter(a.in(1)), a.out(0));
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return conv_cost(*conv_geometry(in[0], in[1], attrs), ConvPass::forward,
                   *conv_method(attrs.get_text("method")), io_bytes(in, out));
}

// Samples; output channels; input channels, whose pieces give partial sums. Groups pin the channels together.
// Rewritten: rows or columns, and groups.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options{{{0, kReplicate}, {0}}};
  const auto g = conv_geometry(in[0], in[1], attrs);
  if (!g.ok()) return options;
  if (g->groups == 1) {
    options.push_back({{kReplicate, 0}, {1}});
    options.push_back({{1, 1}, {kPartial}});
  } else if (g->has_channels()) {
    options.push_back(group_option({{1, 1, g->cg}, {0, 1, g->og()}}, {1, 1, g->og()}));
  }
  for (const int d : {2, 3}) options.push_back({{d, kReplicate}, {d}, /*rewritten=*/true});
  return options;
}

Cut cut(CutBuilder& b) {
  const ConvGeometry g = *conv_geometry(b.whole_input(0), b.whole_input(1), b.attrs());
  const Value x = b.input(0), filter = b.input(1);
  const int dim = b.option().outputs[0].dim;
  if (dim == 1)
    return std::vector{b.add(kConv2d, {x, filter}, with_groups_of(b.attrs(), g, b.type(x).shape[1]))};
  return std::vector{b.add(kConv2d, {seen_inputs(b, x, g, dim), filter}, unpadded(b.attrs(), dim))};
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
    .layout = layout,
    .linear = {.inputs = kAllInputs},
    .cut = cut};

}  // namespace trireme::op
