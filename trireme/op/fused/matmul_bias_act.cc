// matmul, bias and relu as one op.
#include "trireme/op/fused/epilogue.h"
#include "trireme/op/ops.h"
namespace trireme::op {
namespace {
using namespace detail;

// The bias lies along the columns: of matrices, not of batches of them.
Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_rank("a", in[0], 2));
  TR_RETURN_IF_ERROR(expect_rank("b", in[1], 2));
  return infer_epilogue(kMatmul, in, attrs);
}
void run(KernelArgs& a) { run_epilogue(kMatmul, a); }
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return cost_epilogue(kMatmul, in, out, attrs);
}
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  return layout_epilogue(kMatmul, in, attrs);
}
}  // namespace

const OpDef kMatmulBiasAct{
    .name = "matmul_bias_act",
    .doc = "Product of matrices plus a bias along dimension 1, then relu if asked for.",
    .family = "linalg",
    .num_inputs = 3,
    .attrs = epilogue_attrs({{"transpose_a", false, "a is given as [..., k, m]"},
                             {"transpose_b", false, "b is given as [..., n, k]"}}),
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = layout};

}  // namespace trireme::op
