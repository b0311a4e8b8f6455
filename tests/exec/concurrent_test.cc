// Several executors in one process: many Sessions and Executions on one Runtime, and Runtimes of two threads
// that share graphs and compiled graphs. Runs under ThreadSanitizer.
#include <gtest/gtest.h>

#include "tests/exec/fixtures.h"
#include "trireme/exec/session.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/runtime/sync.h"

namespace trireme::exec {
namespace {

using graph::bits;

// A small training program over one weight matrix.
std::shared_ptr<const Graph> training() {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {8, 16}), w = b.variable("w", kF32, {16, 16}),
              lr = b.fill(0.01, kF32, {});
  const Value loss = b.sum(b.tanh(b.matmul(x, w)));
  b.output("loss", loss);
  const std::vector<Value> grads = *graph::add_gradients(g, loss, std::vector{w});
  b.output("step", b.add_node(op::kApplySgd, {w, grads[0], lr}));
  EXPECT_TRUE(b.status().ok());
  return std::make_shared<const Graph>(std::move(g));
}

Tensor ramp(const Shape& shape, float scale) {
  Tensor t = *Tensor::allocate(cpu_device(), {kF32, shape});
  for (std::size_t i = 0; i < t.values<float>().size(); ++i)
    t.values<float>()[i] = scale * static_cast<float>(static_cast<int>(i % 13) - 6);
  return t;
}

// `steps` steps of a Session with a container of its own; the weights afterwards.
Task<Status> train(Runtime& rt, std::shared_ptr<const Graph> graph, float scale, int steps,
                   std::vector<std::byte>& out) {
  auto s = *make_session(rt, std::move(graph), {.width = 2});
  EXPECT_TRUE(s->variables().add("w", ramp({16, 16}, 0.1F)).ok());
  const exec::Feeds feeds{{"x", ramp({8, 16}, scale)}};
  const std::vector<std::string> fetches{"loss"}, effects{"step"};
  for (int i = 0; i < steps; ++i) {
    auto task = s->run(feeds, fetches, effects);
    const Result<std::vector<Tensor>> loss = co_await task;
    EXPECT_TRUE(loss.ok()) << loss.status().to_string();
  }
  out = bits(*s->variables().get("w"));
  co_return Status();
}

constexpr int kSessions = 4, kSteps = 10;
using Weights = std::vector<std::vector<std::byte>>;

// All sessions at once on one real Runtime.
Weights train_all(const std::shared_ptr<const Graph>& graph) {
  Weights weights(kSessions);
  on_real([&](Runtime& rt) -> Task<void> {
    std::vector<Task<Status>> tasks;
    for (int i = 0; i < kSessions; ++i)
      tasks.push_back(
          train(rt, graph, 0.05F * static_cast<float>(i + 1), kSteps, weights[static_cast<std::size_t>(i)]));
    EXPECT_TRUE((co_await runtime::when_all(rt, std::move(tasks))).ok());
  });
  return weights;
}

TEST(Concurrent, SessionsOnOneRuntimeAndOnTwoThreadsGiveTheBitsOfOneAlone) {
  const std::shared_ptr<const Graph> graph = training();
  Weights alone(kSessions);
  for (int i = 0; i < kSessions; ++i)
    on_virtual([&](Runtime& rt) -> Task<void> {
      Task<Status> task =
          train(rt, graph, 0.05F * static_cast<float>(i + 1), kSteps, alone[static_cast<std::size_t>(i)]);
      EXPECT_TRUE((co_await task).ok());
    });
  EXPECT_NE(alone[0], alone[1]);
  Weights a, b;
  runtime::run_in_threads({[&] { a = train_all(graph); }, [&] { b = train_all(graph); }});
  EXPECT_EQ(a, alone);
  EXPECT_EQ(b, alone);
}

TEST(Concurrent, ExecutionsOfOneCompiledGraphRunOnTwoThreads) {
  Graph g;
  Builder b(g);
  Value y = b.input("x", kF32, {16, 16});
  for (int i = 0; i < 4; ++i) y = b.tanh(b.matmul(y, y));
  b.output("y", y);
  const auto compiled = *compile(g, {.width = 2});
  std::vector<std::byte> got[2];
  const auto body = [&](int me) {
    on_real([&, me](Runtime& rt) -> Task<void> {
      auto first = *make_execution(rt, compiled, {.profile = true}),
           second = *make_execution(rt, compiled, {});
      for (Execution* e : {first.get(), second.get()}) EXPECT_TRUE(e->feed("x", ramp({16, 16}, 0.1F)).ok());
      for (int i = 0; i < 5; ++i) {
        std::vector<Task<Status>> tasks;
        tasks.push_back(first->run());
        tasks.push_back(second->run());
        EXPECT_TRUE((co_await runtime::when_all(rt, std::move(tasks))).ok());
      }
      EXPECT_EQ(bits(*first->fetch("y")), bits(*second->fetch("y")));
      got[me] = bits(*second->fetch("y"));
    });
  };
  runtime::run_in_threads({[&] { body(0); }, [&] { body(1); }});
  EXPECT_EQ(got[0], got[1]);
  EXPECT_EQ(got[0].size(), 1024U);
}

}  // namespace
}  // namespace trireme::exec
