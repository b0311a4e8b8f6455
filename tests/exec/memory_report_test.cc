// What is predicted before a run is what a run uses, counted by a Device.
#include "trireme/exec/memory_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/exec/counting_device.h"
#include "tests/exec/fixtures.h"
#include "tests/graph/random_graph.h"
#include "trireme/exec/session.h"
#include "trireme/graph/pass/passes.h"

namespace trireme::exec {
namespace {

Graph convolutions() {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {4, 3, 12, 12}), w = b.variable("w", kF32, {5, 3, 3, 3});
  const Value loss = b.sum(b.max_pool2d(b.relu(b.conv2d(x, w, 1, 1)), 2, 2));
  b.output("loss", loss);
  const std::vector<Value> grads = *graph::add_gradients(g, loss, std::vector{w});
  b.output("step", b.add_node(op::kApplySgd, {w, grads[0], b.fill(0.1, kF32, {})}));
  EXPECT_TRUE(b.status().ok());
  return g;
}

Graph nothing_to_compute() {
  Graph g;
  Builder b(g);
  b.output("y", b.input("x", kF32, {7}));
  return g;
}

// Runs the graph in a Session with everything on one counting device.
void expect_peak(const Graph& g, const std::string& what) {
  SCOPED_TRACE(what);
  CountingDevice device;
  const auto fill = [&device](const TensorType& type) {
    Tensor t = *Tensor::allocate(device, type);
    for (float& f : t.values<float>()) f = 0.1F;
    return t;
  };
  on_virtual([&](Runtime& rt) -> Task<void> {
    auto s = *make_session(rt, std::make_shared<const Graph>(g), {.device = &device});
    std::vector<std::string> fetches;
    for (const auto& [name, v] : g.outputs()) fetches.push_back(name);
    std::map<std::string, TensorType> types;
    const Graph live = *graph::eliminate_dead_code(g, {});
    for (std::int32_t i = 0; i < live.size(); ++i)
      if (live.node(i).def == &op::kInput) types.emplace(live.node(i).name, live.node(i).outputs[0]);
    const Result<MemoryReport> predicted = s->predict_memory(types, fetches);
    EXPECT_TRUE(predicted.ok()) << predicted.status().to_string();
    EXPECT_EQ(device.now(), 0) << "predicting allocates nothing";

    exec::Feeds feeds;
    for (const auto& [name, type] : types) feeds.emplace(name, fill(type));
    for (const auto& [name, v] : live.variables())
      EXPECT_TRUE(s->variables().add(name, fill(live.type(v))).ok());
    for (int i = 0; i < 3; ++i) {
      auto task = s->run(feeds, fetches);
      const Result<std::vector<Tensor>> results = co_await task;
      EXPECT_TRUE(results.ok()) << results.status().to_string();
      EXPECT_EQ(device.now(), predicted->total_bytes()) << predicted->to_text();
    }
    EXPECT_EQ(device.peak(), predicted->total_bytes()) << predicted->to_text();
  });
  EXPECT_EQ(device.now(), 0) << "all of it goes with the Session";
}

TEST(MemoryReport, PredictsThePeakOfARun) {
  expect_peak(convolutions(), "convolutions");
  expect_peak(nothing_to_compute(), "a graph without work");
  for (std::uint64_t seed = 50; seed < 70; ++seed)
    expect_peak(graph::random_graph(seed, 30, false).graph, fmt::format("seed {}", seed));
}

TEST(MemoryReport, SplitsTheArenaAndCountsTheCallersMemory) {
  const Graph g = convolutions();
  const auto compiled = *compile(g, {.bound = {"loss"}});
  const MemoryReport report = compiled->memory();
  EXPECT_EQ(report.arena_bytes(), compiled->arena_bytes());
  EXPECT_EQ(report.variables_bytes, 5 * 3 * 3 * 3 * 4);
  EXPECT_EQ(report.feeds_bytes, 4 * 3 * 12 * 12 * 4);
  EXPECT_EQ(report.bound_bytes, 4);
  EXPECT_GT(report.values_bytes, 4 * 5 * 12 * 12 * 4) << "at least the convolution's output";
  EXPECT_THAT(report.to_text(), ::testing::HasSubstr("workspace"));

  Graph plain;
  Builder b(plain);
  const Value x = b.input("x", kF32, {100});
  b.output("y", b.mul(b.relu(x), x));
  const MemoryReport small = (*compile(plain, {}))->memory();
  EXPECT_EQ(small.workspace_bytes, 0) << "elementwise kernels have no workspace";
  EXPECT_EQ(small.values_bytes, 448) << "one value of 400 bytes, computed in place, in steps of 64";
}

}  // namespace
}  // namespace trireme::exec
