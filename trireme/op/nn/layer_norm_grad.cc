// Gradient of layer_norm from (x, scale, mean, var, dy): dx, dscale, dbias.
#include "trireme/op/nn/layer_norm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const NormView v, layer_norm_view(in[0], attrs));
  return infer_norm_grad(in, v, attrs);
}

Result<Grads> grad(GradBuilder& g) {
  return norm_grad_grads(g, *layer_norm_view(g.type(g.input(0)), g.attrs()));
}

std::size_t workspace(TypeSpan in, const Attrs& attrs) {
  return norm_grad_workspace(*layer_norm_view(in[0], attrs));
}

void run(KernelArgs& a) { run_norm_grad(a, *layer_norm_view(a.in(0).type(), a.attrs)); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return norm_grad_cost(in, out, *layer_norm_view(in[0], attrs));
}

// Every dimension that numbers the groups; dscale and dbias are sums over them. Rewritten those that are
// averaged over, with scale and its gradients.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options;
  const int rank = in[0].shape.rank(), groups = rank - static_cast<int>(attrs.get_int("num_axes"));
  for (int d = 0; d < groups; ++d) options.push_back({{d, kReplicate, d, d, d}, {d, kPartial, kPartial}});
  for (int d = groups; in[1].shape.num_elems() > 0 && d < rank; ++d)
    options.push_back(
        cut_norm_option({d, d - groups, kReplicate, kReplicate, d}, {d, d - groups, d - groups}));
  return options;
}

Cut cut(CutBuilder& b) { return cut_norm_grad(b, *layer_norm_view(b.whole_input(0), b.attrs())); }
}  // namespace

const OpDef kLayerNormGrad{.name = "layer_norm_grad",
                           .doc = "Gradient of layer_norm from (x, scale, mean, var, dy): dx, dscale, dbias.",
                           .family = "nn",
                           .num_inputs = 5,
                           .num_outputs = 3,
                           .attrs = layer_norm_attrs(),
                           .infer = infer,
                           .grad = grad,
                           .reference = run,
                           .reference_workspace = workspace,
                           .cost = cost,
                           .layout = layout,
                           .linear = {.inputs = 1U << 4},
                           .cut = cut};

}  // namespace trireme::op
