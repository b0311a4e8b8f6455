// conv2d, bias and relu as one op.
#include "trireme/op/fused/epilogue.h"
#include "trireme/op/nn/conv2d.h"
#include "trireme/op/ops.h"
namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) { return infer_epilogue(kConv2d, in, attrs); }
void run(KernelArgs& a) { run_epilogue(kConv2d, a); }
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return cost_epilogue(kConv2d, in, out, attrs);
}
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  return layout_epilogue(kConv2d, in, attrs);
}
}  // namespace

const OpDef kConv2dBiasAct{
    .name = "conv2d_bias_act",
    .doc = "Two-dimensional convolution plus a bias per output channel, then relu if asked for.",
    .family = "nn",
    .num_inputs = 3,
    .attrs = epilogue_attrs(conv_attrs()),
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = layout};

}  // namespace trireme::op
