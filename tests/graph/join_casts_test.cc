// Weights are cast to 16 bits by one op.
#include "trireme/graph/pass/passes.h"

#include <gtest/gtest.h>

#include "tests/graph/residual_blocks.h"
#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"

namespace trireme::graph {
namespace {

TEST(JoinCasts, GiveTheSameBitsFromOneNode) {
  for (const DType low : {DType::kBF16, DType::kF16}) {
    const ResidualBlocks model(low);
    const Graph joined = *run_pass("join_casts", model.graph);
    ASSERT_TRUE(verify(joined).ok()) << verify(joined).to_string();
    EXPECT_EQ(count_ops(joined, "cast_all"), 1) << joined.to_text();
    EXPECT_EQ(count_ops(joined, "cast"), count_ops(model.graph, "cast") - 4);  // x, in and two weights
    expect_same_results(joined, model.graph, model.feeds, 0, "joined");
    EXPECT_EQ(run_pass("join_casts", joined)->to_text(), joined.to_text());
  }
  const ResidualBlocks plain(DType::kF32);
  EXPECT_EQ(run_pass("join_casts", plain.graph)->to_text(), plain.graph.to_text());
}

}  // namespace
}  // namespace trireme::graph
