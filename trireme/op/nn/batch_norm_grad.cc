// Gradient of batch_norm from (x, scale, mean, var, dy): dx, dscale, dbias.
#include "trireme/op/nn/norm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  if (in[0].shape.rank() < 2)
    return error(Code::kInvalid, "x: got {}, expected at least 2 dimensions", in[0].to_string());
  return infer_norm_grad(in, batch_view(in[0].shape), attrs);
}

Result<Grads> grad(GradBuilder& g) { return norm_grad_grads(g, batch_view(g.type(g.input(0)).shape)); }

std::size_t workspace(TypeSpan in, const Attrs&) { return norm_grad_workspace(batch_view(in[0].shape)); }

void run(KernelArgs& a) { run_norm_grad(a, batch_view(a.in(0).shape())); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  return norm_grad_cost(in, out, batch_view(in[0].shape));
}

// As for batch_norm.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options{{{1, 0, 0, 0, 1}, {1, 0, 0}}};
  for (int d = 0; in[0].shape.num_elems() > 0 && d < in[0].shape.rank(); ++d) {
    if (d != 1)
      options.push_back(
          cut_norm_option({d, kReplicate, kReplicate, kReplicate, d}, {d, kReplicate, kReplicate}));
  }
  return options;
}

Cut cut(CutBuilder& b) { return cut_norm_grad(b, batch_view(b.whole_input(0).shape)); }
}  // namespace

const OpDef kBatchNormGrad{.name = "batch_norm_grad",
                           .doc = "Gradient of batch_norm from (x, scale, mean, var, dy): dx, dscale, dbias.",
                           .family = "nn",
                           .num_inputs = 5,
                           .num_outputs = 3,
                           .attrs = {eps_attr()},
                           .infer = infer,
                           .grad = grad,
                           .reference = run,
                           .reference_workspace = workspace,
                           .cost = cost,
                           .layout = layout,
                           .linear = {.inputs = 1U << 4},
                           .cut = cut};

}  // namespace trireme::op
