// Locally connected layer of x [N,C,H,W] with filter [OH,OW,O,C/groups,KH,KW].
#include "trireme/op/nn/conv_cut.h"
#include "trireme/op/nn/conv_work.h"
#include "trireme/op/nn/locally_connected.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const ConvGeometry g, local_geometry(in[0], in[1], attrs));
  return std::vector{TensorType{in[0].dtype, g.out_shape()}};
}

Result<Grads> grad(GradBuilder& g) {
  return conv_grads(g, kLocallyConnected2dInputGrad, kLocallyConnected2dFilterGrad);
}

void run(KernelArgs& a) {
  const ConvGeometry g = *local_geometry(a.in(0).type(), a.in(1).type(), a.attrs);
  conv_forward(g, a.in(0), a.in(1), local_filter(a.in(1)), a.out(0));
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return conv_cost(*local_geometry(in[0], in[1], attrs), ConvPass::forward, ConvMethod::direct,
                   io_bytes(in, out));
}

// Samples; output channels; input channels, whose pieces give partial sums. Rewritten: rows or columns, with
// the filters of the outputs.
std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  std::vector<LayoutOption> options{{{0, kReplicate}, {0}}};
  if (attrs.get_int("groups") == 1) {
    options.push_back({{kReplicate, 2}, {1}});
    options.push_back({{1, 3}, {kPartial}});
  }
  for (const int d : {2, 3}) options.push_back({{d, d - 2}, {d}, /*rewritten=*/true});
  return options;
}

Cut cut(CutBuilder& b) {
  const ConvGeometry g = *local_geometry(b.whole_input(0), b.whole_input(1), b.attrs());
  const int dim = b.option().outputs[0].dim;
  return std::vector{
      b.add(kLocallyConnected2d, {seen_inputs(b, b.input(0), g, dim), b.input(1)}, unpadded(b.attrs(), dim))};
}
}  // namespace

const OpDef kLocallyConnected2d{
    .name = "locally_connected2d",
    .doc = "Convolution of x [N,C,H,W] with a filter per output position, filter [OH,OW,O,C/groups,KH,KW].",
    .family = "nn",
    .num_inputs = 2,
    .attrs = local_attrs({}),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .linear = {.inputs = kAllInputs},
    .cut = cut};

}  // namespace trireme::op
