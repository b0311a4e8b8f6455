// The gradient of a bias, added up by the fused group that makes the rows that it reads.
#include "trireme/graph/pass/passes.h"

#include <gtest/gtest.h>

#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"
#include "tests/graph/small_net.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// Two layers tanh(x w + b) in mixed precision, and gradients.
TEST(JoinBiasGrads, GiveTheSameBitsFromOneNode) {
  for (const DType low : {DType::kF32, DType::kBF16}) {
    Graph plain;
    Builder b(plain);
    Philox rng(5);
    Feeds feeds;
    const auto variable = [&](const std::string& name, const Shape& s) {
      return random_variable(b, rng, feeds, name, s);
    };
    Value x = variable("x", {5, 8});
    for (const char* const name : {"first", "second"}) {
      const std::string at = name;
      x = b.tanh(b.bias_add(b.matmul(x, variable(at + "/weight", {8, 8})), variable(at + "/bias", {8})));
    }
    b.output("loss", b.sum(b.mul(x, x)));
    ASSERT_TRUE(b.status().ok()) << b.status().to_string();
    Graph graph = low == DType::kF32 ? plain : *lower_precision(plain, low);
    add_gradient_outputs(graph);
    graph = *run_pass("narrow_copies", *run_pass("cse", *eliminate_dead_code(graph, {})));
    graph = *eliminate_dead_code(*run_pass("absorb_casts", graph, {.adaptable = {"bias_grad"}}), {});
    const Graph fused = *run_pass("fuse", graph), joined = *run_pass("join_bias_grads", fused);
    ASSERT_TRUE(verify(joined).ok()) << verify(joined).to_string();
    EXPECT_EQ(count_ops(joined, "fused_bias_grad"), 2) << joined.to_text();
    expect_same_results(joined, fused, feeds, 0, "joined");
  }
}

}  // namespace
}  // namespace trireme::graph
