// Gradients of attention for its inputs, with the scores made again row by row. Formulas and sizes:
// attention.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/attention_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const TensorType y, infer_attention(in, attrs));
  TR_RETURN_IF_ERROR(expect_type("dy", in[3], y));
  return std::vector{in[0], in[1], in[2]};
}

Result<Grads> grad(GradBuilder& g) {
  std::vector<Value> inputs;
  for (int i = 0; i < 4; ++i) inputs.push_back(g.input(i));
  for (int i = 0; i < 3; ++i) {
    const Value u = g.grad_output(i);
    inputs.push_back(u.is_null() ? g.zeros_like(g.output(i)) : u);
  }
  const Value first = g.add(kAttentionGradGrad, inputs, g.attrs());
  return Grads{first, {first.node, 1}, {first.node, 2}, {first.node, 3}};
}

void run(KernelArgs& a) { run_attention_grad(a, {a.in(0).type(), a.in(1).type(), a.in(2).type(), a.attrs}); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const AttentionSizes s(in[0], in[1], in[2], attrs);
  return attention_cost(in, out, s, attention_gradients(s), false);
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  return with_causal_queries(attention_layout(attrs, {true, false, false, true}, {true, false, false}), in,
                             attrs, {{2, kReplicate, kReplicate, 2}, {2, kPartial, kPartial}});
}

Cut cut(CutBuilder& b) {
  std::vector<Value> inputs;
  for (int i = 0; i < 4; ++i) inputs.push_back(b.input(i));
  inputs.push_back(b.begin_of(b.whole_input(0).shape[2]));
  const Value dq = b.add(kAttentionPartGrad, std::move(inputs), b.attrs());
  return std::vector<Value>{dq, {dq.node, 1}, {dq.node, 2}};
}
}  // namespace

const OpDef kAttentionGrad{.name = "attention_grad",
                           .doc = "Gradients (dq, dk, dv) of attention from (q, k, v, dy).",
                           .family = "sequence",
                           .num_inputs = 4,
                           .num_outputs = 3,
                           .attrs = attention_attrs(),
                           .infer = infer,
                           .grad = grad,
                           .reference = run,
                           .reference_workspace = attention_workspace<false, true>,
                           .cost = cost,
                           .layout = layout,
                           .linear = {.inputs = 1U << 3},
                           .cut = cut};

}  // namespace trireme::op
