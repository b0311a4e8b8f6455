// Gradients of attention_part for its inputs; those of keys and values are of these queries only. Formulas
// and sizes: attention.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/attention_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const TensorType y, infer_attention(in, attrs));
  TR_RETURN_IF_ERROR(expect_type("dy", in[3], y));
  TR_RETURN_IF_ERROR(expect_type("begin", in[4], {DType::kI64, {}}));
  return std::vector{in[0], in[1], in[2]};
}

void run(KernelArgs& a) { run_attention_grad(a, part_sizes_of(a, 4)); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const AttentionSizes s(in[0], in[1], in[2], attrs);
  return attention_part_cost(in, out, s, attention_gradients(s));
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) {
  return {{{0, 0, 0, 0, kReplicate}, {0, 0, 0}}, {{1, 1, 1, 1, kReplicate}, {1, 1, 1}}};
}
}  // namespace

const OpDef kAttentionPartGrad{.name = "attention_part_grad",
                               .doc = "Gradients (dq, dk, dv) of attention_part from (q, k, v, dy, begin).",
                               .family = "sequence",
                               .num_inputs = 5,
                               .num_outputs = 3,
                               .attrs = attention_attrs(),
                               .infer = infer,
                               .reference = run,
                               .reference_workspace = attention_workspace<false, true>,
                               .cost = cost,
                               .layout = layout,
                               .linear = {.inputs = 1U << 3}};

}  // namespace trireme::op
