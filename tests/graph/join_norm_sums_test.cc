// A residual beside a layer norm and a product in mixed precision: the gradient's sum is made by the norm's.
#include "trireme/graph/pass/passes.h"

#include <gtest/gtest.h>

#include "tests/graph/residual_blocks.h"
#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"

namespace trireme::graph {
namespace {

TEST(JoinNormSums, GiveTheSameBitsFromOneNodePerNorm) {
  for (const DType low : {DType::kBF16, DType::kF16}) {
    const ResidualBlocks model(low);
    const Graph joined = *run_pass("join_norm_sums", model.graph);
    ASSERT_TRUE(verify(joined).ok()) << verify(joined).to_string();
    EXPECT_EQ(count_ops(joined, "layer_norm_grad_sum"), 2) << joined.to_text();
    EXPECT_EQ(count_ops(joined, "layer_norm_grad"), 0);
    expect_same_results(joined, model.graph, model.feeds, 0, "joined");
    const Graph absorbed = *eliminate_dead_code(
        *run_pass("absorb_casts", joined, {.adaptable = {"layer_norm_grad_sum", "layer_norm"}}), {});
    expect_same_results(absorbed, model.graph, model.feeds, 0, "absorbed");
  }
}

TEST(JoinNormSums, GiveTheGradientOfABiasThatReadsTheCopy) {
  const ResidualBlocks model(DType::kBF16);
  const Graph narrow = *eliminate_dead_code(*run_pass("narrow_copies", model.graph), {}),
              joined = *eliminate_dead_code(*run_pass("join_norm_sums", narrow), {});
  EXPECT_EQ(count_ops(narrow, "bias_grad"), 2);
  EXPECT_EQ(count_ops(joined, "bias_grad"), 1) << joined.to_text();  // behind the last block there is no norm
  expect_same_results(joined, narrow, model.feeds, 0, "joined");
}

TEST(JoinNormSums, LeaveSumsThatNobodyReadsIn16Bits) {
  const ResidualBlocks model(DType::kF32);
  EXPECT_EQ(run_pass("join_norm_sums", model.graph)->to_text(), model.graph.to_text());
}

}  // namespace
}  // namespace trireme::graph
