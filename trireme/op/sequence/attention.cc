// Scaled dot-product attention. Formulas and sizes: attention.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/attention_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const TensorType y, infer_attention(in, attrs));
  return std::vector{y};
}

Result<Grads> grad(GradBuilder& g) {
  const Value dq = g.add(kAttentionGrad, {g.input(0), g.input(1), g.input(2), g.grad_output(0)}, g.attrs());
  return Grads{dq, {dq.node, 1}, {dq.node, 2}};
}

void run(KernelArgs& a) { run_attention(a, {a.in(0).type(), a.in(1).type(), a.in(2).type(), a.attrs}); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const AttentionSizes s(in[0], in[1], in[2], attrs);
  const Tally t = attention_rows(s) + Tally::multiply_adds(static_cast<double>(s.width));
  return attention_cost(in, out, s, t, false);
}

// The features of v too.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  auto options = attention_layout(attrs, {true, false, false}, {true});
  options.push_back({{kReplicate, kReplicate, 3}, {3}});
  return with_causal_queries(std::move(options), in, attrs, {{2, kReplicate, kReplicate}, {2}});
}

Cut cut(CutBuilder& b) {
  const Value begin = b.begin_of(b.whole_input(0).shape[2]);
  return std::vector{b.add(kAttentionPart, {b.input(0), b.input(1), b.input(2), begin}, b.attrs())};
}
}  // namespace

const OpDef kAttention{.name = "attention",
                       .doc = "softmax(scale q k^T) v for q [B,H,T,D], k [B,H,S,D], v [B,H,S,E]: [B,H,T,E].",
                       .family = "sequence",
                       .num_inputs = 3,
                       .attrs = attention_attrs(),
                       .infer = infer,
                       .grad = grad,
                       .reference = run,
                       .reference_workspace = attention_workspace<false, false>,
                       .cost = cost,
                       .layout = layout,
                       .linear = {.inputs = 1U << 2},
                       .cut = cut};

}  // namespace trireme::op
