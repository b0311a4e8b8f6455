// Batch normalisation while training (Ioffe and Szegedy, 2015): statistics of this batch, per channel.
#include "trireme/op/nn/norm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  if (in[0].shape.rank() < 2)
    return error(Code::kInvalid, "x: got {}, expected at least 2 dimensions", in[0].to_string());
  return infer_norm(in, batch_view(in[0].shape), attrs);
}

Result<Grads> grad(GradBuilder& g) {
  return norm_grads(g, batch_view(g.type(g.input(0)).shape), kBatchNormGrad);
}

void run(KernelArgs& a) { run_norm(a, batch_view(a.in(0).shape())); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  return norm_cost(in, out, batch_view(in[0].shape));
}

// Channels; rewritten every other dimension, all of whose elements take part in the statistics.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options{{{1, 0, 0}, {1, 0, 0}}};
  for (int d = 0; in[0].shape.num_elems() > 0 && d < in[0].shape.rank(); ++d) {
    if (d != 1) options.push_back(cut_norm_option({d, kReplicate, kReplicate}, {d, kReplicate, kReplicate}));
  }
  return options;
}

Cut cut(CutBuilder& b) { return cut_norm(b, batch_view(b.whole_input(0).shape)); }
}  // namespace

const OpDef kBatchNorm{
    .name = "batch_norm",
    .doc =
        "y = (x - mean) / sqrt(var + eps) * scale + bias with mean and biased variance of x [N,C,...] per "
        "channel; outputs y, mean, var.",
    .family = "nn",
    .num_inputs = 3,
    .num_outputs = 3,
    .attrs = {eps_attr()},
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .cut = cut};

}  // namespace trireme::op
