// What the first phase makes of variables alone is made again behind it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/graph/same_outputs.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/recompute.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

constexpr DType kF32 = DType::kF32;

// sum(sigmoid(x low(2 w)^2) low(v)), where low rounds to bf16 and back.
struct Net {
  Graph graph;
  Feeds feeds;
  Net() {
    Builder b(graph);
    Philox rng(3);
    const auto random = [&](const Shape& s) {
      Tensor t = *Tensor::allocate(cpu_device(), {kF32, s});
      for (float& f : t.values<float>()) f = rng.next_uniform() - 0.5F;
      return t;
    };
    const Value x = b.input("x", kF32, {3, 4}), w = b.variable("w", kF32, {4, 4}),
                v = b.variable("v", kF32, {4, 2});
    feeds = {{"x", random({3, 4})}, {"w", random({4, 4})}, {"v", random({4, 2})}};
    const auto low = [&](Value of) {
      return b.add_node(op::kCast, {b.add_node(op::kCast, {of}, {{"dtype", DType::kBF16}})},
                        {{"dtype", kF32}});
    };
    const Value low_w = low(b.mul(w, b.fill(2.0, kF32, {}))), low_v = low(v);
    const Value h = b.sigmoid(b.matmul(x, b.mul(low_w, low_w)));
    const Value loss = b.sum(b.matmul(h, low_v));
    b.output("loss", loss);
    const auto grads = *add_gradients(graph, loss, std::vector<Value>{x, w, v});
    b.output("back:x", grads[0]);
    b.output("grad:w", grads[1]);
    b.output("grad:v", grads[2]);
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  }
};

const std::vector<std::string> kForward{"loss"};

std::vector<bool> needed_by(const Graph& g, const std::vector<std::string>& outputs) {
  std::vector<bool> needed(static_cast<std::size_t>(g.size()), false);
  for (const std::string& name : outputs) needed[static_cast<std::size_t>(g.find_output(name)->node)] = true;
  for (std::int32_t i = g.size() - 1; i >= 0; --i)
    if (needed[static_cast<std::size_t>(i)])
      for (const Value v : g.node(i).inputs) needed[static_cast<std::size_t>(v.node)] = true;
  return needed;
}

// Values of the first phase that later ones read, and that no sample has a part in.
std::set<std::string> kept_of_variables(const Graph& g) {
  const std::vector<bool> first = needed_by(g, kForward);
  std::vector<bool> of_samples(static_cast<std::size_t>(g.size()), false);
  std::set<std::string> kept;
  for (std::int32_t i = 0; i < g.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    of_samples[at] = g.node(i).def == &op::kInput;
    for (const Value v : g.node(i).inputs) {
      const auto from = static_cast<std::size_t>(v.node);
      of_samples[at] = of_samples[at] || of_samples[from];
      const Node& made = g.node(v.node);
      if (!first[at] && first[from] && !of_samples[from] && !made.inputs.empty()) kept.insert(made.name);
    }
  }
  return kept;
}

TEST(RereadVariables, LeavesNothingOfVariablesAloneBetweenThePhases) {
  const Net net;
  ASSERT_FALSE(kept_of_variables(net.graph).empty()) << "or there is nothing to see";
  const Graph again = *reread_variables(net.graph, kForward);
  ASSERT_TRUE(verify(again).ok());
  EXPECT_THAT(kept_of_variables(again), ::testing::IsEmpty());
  expect_same_results(again, net.graph, net.feeds, 0, "read again");
}

// The first phase is as it was; so is a graph of which nothing is read again.
TEST(RereadVariables, ChangesNothingElse) {
  const Net net;
  const Graph again = *reread_variables(net.graph, kForward);
  const auto count = [](const std::vector<bool>& nodes) {
    return std::count(nodes.begin(), nodes.end(), true);
  };
  EXPECT_EQ(count(needed_by(again, kForward)), count(needed_by(net.graph, kForward)));
  EXPECT_GT(again.size(), net.graph.size());
  EXPECT_EQ(reread_variables(again, kForward)->size(), again.size());
}

}  // namespace
}  // namespace trireme::graph
