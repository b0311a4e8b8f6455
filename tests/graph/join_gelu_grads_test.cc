// The gradient of gelu, an expression of many ops, as one op.
#include "trireme/graph/pass/passes.h"

#include <gtest/gtest.h>

#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"
#include "tests/graph/small_net.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

TEST(JoinGeluGrads, FindBothFormsAndLeaveNothingOfThem) {
  for (const bool tanh : {false, true}) {
    Graph graph;
    Builder b(graph);
    Philox rng(5);
    Feeds feeds;
    Value x = random_variable(b, rng, feeds, "x", {5, 7});
    for (int i = 0; i < 2; ++i)
      x = b.add_node(op::kGelu, {b.add_node(op::kScale, {x}, {{"factor", 3.0}})}, {{"tanh", tanh}});
    b.output("loss", b.sum(b.mul(x, x)));
    ASSERT_TRUE(b.status().ok()) << b.status().to_string();
    add_gradient_outputs(graph);
    const Graph plain = *run_pass("cse", *eliminate_dead_code(graph, {})),
                joined = *eliminate_dead_code(*run_pass("join_gelu_grads", plain), {});
    ASSERT_TRUE(verify(joined).ok()) << verify(joined).to_string();
    EXPECT_EQ(count_ops(joined, "gelu_grad"), 2) << joined.to_text();
    for (const char* const part : {"tanh", "erf", "exp", "square"})
      EXPECT_EQ(count_ops(joined, part), 0) << part;
    expect_same_results(joined, plain, feeds, 1e-5, "joined");
  }
}

}  // namespace
}  // namespace trireme::graph
