#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/same_outputs.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/recompute.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

using ::testing::HasSubstr;
constexpr DType kF32 = DType::kF32;
constexpr std::int64_t kSide = 64, kBytes = kSide * kSide * 4;

// Layers of matmul, bias, sigmoid, dropout, with gradients of all weights: activations wait for the backward
// part.
struct Net {
  Graph graph;
  Feeds feeds;
  explicit Net(int layers) {
    Builder b(graph);
    Philox rng(5);
    const auto random = [&](const Shape& s) {
      Tensor t = *Tensor::allocate(cpu_device(), {kF32, s});
      for (float& f : t.values<float>()) f = (rng.next_uniform() - 0.5F) / 4;
      return t;
    };
    Value h = b.input("x", kF32, {kSide, kSide});
    feeds.emplace("x", random({kSide, kSide}));
    const Value key = b.input("key", DType::kI64, {}), ids = b.input("ids", DType::kI64, {kSide});
    feeds.emplace("key", Tensor::from<std::int64_t>(std::vector<std::int64_t>{3}, {}));
    feeds.emplace("ids", Tensor::from<std::int64_t>(std::vector<std::int64_t>(kSide, 9), {kSide}));
    std::vector<Value> weights;
    for (int i = 0; i < layers; ++i) {
      const std::string name = fmt::format("w{}", i);
      weights.push_back(b.variable(name, kF32, {kSide, kSide}));
      feeds.emplace(name, random({kSide, kSide}));
      h = b.dropout(b.sigmoid(b.mul(b.matmul(h, weights.back()), b.fill(0.5, kF32, {}))), key, key, ids, 0.25,
                    i);
    }
    const auto grads = *add_gradients(graph, b.sum(h), weights);
    for (std::size_t i = 0; i < grads.size(); ++i) b.output(fmt::format("d{}", i), grads[i]);
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  }
};

std::int64_t arena(const Graph& g) { return plan_memory(g, {})->plan.arena_bytes; }

std::int32_t node_of(const Graph& g, const std::string& output) { return g.find_output(output)->node; }

// What is kept from the forward phase, which ends with the loss.
std::int64_t kept(const Graph& g) {
  MemoryRequest request;
  for (const auto& [name, v] : g.outputs()) request.pinned.push_back(v);
  for (std::int32_t i = 0; i < g.size(); ++i) request.phase.push_back(i <= node_of(g, "loss") ? 0 : 1);
  return plan_memory(g, request)->plan.arena_bytes;
}

TEST(Recompute, KeepsLessBetweenPhasesWithTheSameBits) {
  Net net(5);
  std::int32_t loss = 0;
  while (net.graph.node(loss).def != &op::kSum) ++loss;
  Builder b(net.graph);
  b.output("loss", {loss, 0});
  std::vector<std::vector<std::string>> phases = {{"loss"}, {}};
  for (int i = 0; i < 5; ++i) phases[1].push_back(fmt::format("d{}", i));
  const Result<Graph> after = recompute_between(net.graph, phases, 2 * kBytes);
  ASSERT_TRUE(after.ok()) << after.status().to_string();
  EXPECT_LE(kept(*after), kept(net.graph) - 2 * kBytes);
  ASSERT_TRUE(verify(*after).ok()) << verify(*after).to_string();
  expect_same_results(*after, net.graph, net.feeds, 0, "recompute");
  const Result<Graph> least = recompute_between(net.graph, phases, 1 << 30);
  ASSERT_TRUE(least.ok()) << "as far as it goes";
  EXPECT_LT(kept(*least), kept(*after));
}

TEST(Recompute, MeetsALimitWithTheSameBits) {
  const Net net(5);
  const std::int64_t before = arena(net.graph);
  const std::int64_t limit = before - 2 * kBytes;
  const Result<Graph> after = recompute(net.graph, limit);
  ASSERT_TRUE(after.ok()) << after.status().to_string();
  EXPECT_LE(arena(*after), limit);
  EXPECT_GT(after->size(), net.graph.size());
  ASSERT_TRUE(verify(*after).ok()) << verify(*after).to_string();
  expect_same_results(*after, net.graph, net.feeds, 0, "recompute");
}

// Gradients in the caller's memory: what counts is the place of the others.
TEST(Recompute, MeetsALimitOfWhatIsNotPinned) {
  const Net net(5);
  const auto left = [](const Graph& g) {
    MemoryRequest request;
    for (const auto& [name, v] : g.outputs()) request.pinned.push_back(v);
    return plan_memory(g, request)->plan.arena_bytes;
  };
  const std::int64_t limit = left(net.graph) - 2 * kBytes;
  const Result<Graph> after = recompute(net.graph, limit, true);
  ASSERT_TRUE(after.ok()) << after.status().to_string();
  EXPECT_LE(left(*after), limit);
  expect_same_results(*after, net.graph, net.feeds, 0, "recompute");
}

TEST(Recompute, TakesTheSameRandomNumbersAgainAndNeverRecomputesProducts) {
  const Net net(5);
  const Graph after = *recompute(net.graph, arena(net.graph) - 2 * kBytes);
  EXPECT_EQ(count_ops(after, "matmul"), count_ops(net.graph, "matmul"));
  EXPECT_GT(count_ops(after, "dropout"), count_ops(net.graph, "dropout"));
  for (std::int32_t i = 0; i < after.size(); ++i) {
    const Node& n = after.node(i);
    if (!n.name.ends_with("/again") || n.def != &op::kDropout) continue;
    EXPECT_FALSE(n.control.empty()) << n.name << " waits for the gradient of what reads it";
  }
}

TEST(Recompute, ALimitThatHoldsChangesNothing) {
  const Net net(2);
  EXPECT_EQ(recompute(net.graph, arena(net.graph))->to_text(), net.graph.to_text());
}

TEST(Recompute, ALimitThatCannotBeMetIsRefusedWithTheLeastReached) {
  const Net net(3);
  const Status s = recompute(net.graph, 1000).status();
  EXPECT_EQ(s.code(), Code::kExhausted);
  EXPECT_THAT(s.message(), HasSubstr("expected at most 1000"));
  EXPECT_THAT(s.message(), HasSubstr(fmt::format("({} before)", arena(net.graph))));
}

TEST(Recompute, AVariableThatChangedMeanwhileIsNotReadAgain) {
  Graph g;
  Builder b(g);
  const Value w = b.variable("w", kF32, {kSide, kSide}), x = b.input("x", kF32, {kSide, kSide});
  const Value early = b.tanh(w);  // cheap, read late, but w is gone by then
  const Value first = b.matmul(early, x);
  const Value changed = b.add_node(op::kAssignAdd, {w, x});
  Value h = first;
  for (int i = 0; i < 3; ++i) h = b.matmul(b.relu(h), x);
  b.output("y", b.matmul(h, early));
  b.output("w", changed);
  ASSERT_TRUE(b.status().ok());
  EXPECT_EQ(recompute(g, arena(g) - 64).status().code(), Code::kExhausted);
}

}  // namespace
}  // namespace trireme::graph
