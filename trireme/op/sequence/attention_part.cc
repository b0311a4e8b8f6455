// Attention of a part of the queries, which knows their place among all of them: what attention becomes where
// it is causal and its queries are cut. Formulas and sizes: attention.h.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/attention_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const TensorType y, infer_attention(in, attrs));
  TR_RETURN_IF_ERROR(expect_type("begin", in[3], {DType::kI64, {}}));
  return std::vector{y};
}

void run(KernelArgs& a) { run_attention(a, part_sizes_of(a, 3)); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const AttentionSizes s(in[0], in[1], in[2], attrs);
  return attention_part_cost(in, out, s,
                             attention_rows(s) + Tally::multiply_adds(static_cast<double>(s.width)));
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) {
  return {{{0, 0, 0, kReplicate}, {0}}, {{1, 1, 1, kReplicate}, {1}}};
}
}  // namespace

const OpDef kAttentionPart{
    .name = "attention_part",
    .doc = "attention of queries of which the first has index `begin` (i64 scalar): from (q, k, v, begin).",
    .family = "sequence",
    .num_inputs = 4,
    .attrs = attention_attrs(),
    .infer = infer,
    .reference = run,
    .reference_workspace = attention_workspace<false, false>,
    .cost = cost,
    .layout = layout};

}  // namespace trireme::op
