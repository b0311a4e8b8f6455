// Graphs on a GPU against the interpreter: the first run starts kernels one by one, the second captures them,
// later ones replay.
#include <gmock/gmock.h>

#include "tests/exec_cuda/on_gpu.h"
#include "tests/graph/random_graph.h"
#include "trireme/runtime/sync.h"

namespace trireme::exec {
namespace {

using graph::bits;
using graph::copy_of;
using graph::Flavour;
using ::testing::ElementsAre;

class DeviceRuns : public OnGpu {};

constexpr int kRuns = 4;

std::vector<std::string> outputs_of(const Graph& g) {
  std::vector<std::string> names;
  for (const auto& [name, v] : g.outputs()) names.push_back(name);
  return names;
}

TEST_F(DeviceRuns, GiveWhatTheInterpreterGivesAndTheSameBitsWhenCapturedAndReplayed) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    const auto random = graph::random_graph(seed, 20, false, Flavour::kSmooth);
    const auto plan = compiled(random.graph);
    on_real([&](Runtime& rt) -> Task<void> {
      Variables v = variables_of(random.graph, random.feeds);
      auto e = *make_execution(rt, plan, {.variables = &v});
      EXPECT_TRUE(feed_all(*e, plan->graph(), random.feeds).ok());
      std::map<std::string, std::vector<std::byte>> first;
      for (int run = 0; run < kRuns; ++run) {
        const Status ran = co_await e->run();
        EXPECT_TRUE(ran.ok()) << ran.to_string();
        for (const std::string& name : outputs_of(random.graph)) {
          const Tensor got = *e->fetch(name);
          if (run == 0) {
            expect_near(got, graph::interpret_output(random.graph, random.feeds, name), name);
            first[name] = bits(got);
          }
          EXPECT_EQ(bits(got), first[name]) << name << ", run " << run;
        }
      }
    });
  }
}

// Predictions add up kernels one after the other: what one computes does not hide what another moves.
TEST_F(DeviceRuns, EveryKernelIsAStrandOfTheOutline) {
  const auto random = graph::random_graph(3, 20, false, Flavour::kSmooth);
  const auto there = compiled(random.graph);
  const auto here = *compile(random.graph, {});
  EXPECT_GE(there->outline().strands.size(), here->outline().strands.size());
  cost::OpCost total;
  for (const cost::OpCost& strand : there->outline().strands) total += strand;
  EXPECT_DOUBLE_EQ(total.flops, there->cost().flops);
  EXPECT_DOUBLE_EQ(total.bytes, there->cost().bytes);
}

// Variables that change with every run: the host's memory has each run's values when it ends.
TEST_F(DeviceRuns, VariablesOfTheHostAreReadAndWrittenInEveryRun) {
  for (std::uint64_t seed = 100; seed < 116; ++seed) {
    SCOPED_TRACE(seed);
    const auto random = graph::random_graph(seed, 16, false, Flavour::kPlain);
    const auto plan = compiled(random.graph);
    on_real([&](Runtime& rt) -> Task<void> {
      const Feeds ours = copy_of(random.feeds), theirs = copy_of(random.feeds);
      Variables v = variables_of(random.graph, ours);
      auto e = *make_execution(rt, plan, {.variables = &v});
      EXPECT_TRUE(feed_all(*e, plan->graph(), ours).ok());
      for (int run = 0; run < kRuns; ++run) {
        const Status ran = co_await e->run();
        EXPECT_TRUE(ran.ok()) << ran.to_string();
        // Not what the graph does not compute: only live nodes write.
        const auto want = graph::interpret(plan->graph(), theirs);
        for (const auto& [name, at] : plan->graph().variables())
          expect_near(ours.at(name), theirs.at(name), fmt::format("{} after run {}", name, run));
        for (const auto& [name, at] : plan->graph().outputs())
          expect_near(*e->fetch(name),
                      want[static_cast<std::size_t>(at.node)][static_cast<std::size_t>(at.index)],
                      fmt::format("{} after run {}", name, run));
      }
    });
  }
}

TEST_F(DeviceRuns, HostOpsBetweenKernelsGetCopiesAndGiveTheirsBack) {
  for (std::uint64_t seed = 200; seed < 216; ++seed) {
    SCOPED_TRACE(seed);
    const auto random = graph::random_graph(seed, 20, true, Flavour::kSmooth);
    const auto plan = compiled(random.graph);
    on_real([&](Runtime& rt) -> Task<void> {
      DoublingHost doubling(rt);
      Variables v = variables_of(random.graph, random.feeds);
      auto e = *make_execution(rt, plan, {.variables = &v, .host_ops = {{"allreduce", &doubling}}});
      EXPECT_TRUE(feed_all(*e, plan->graph(), random.feeds).ok());
      for (int run = 0; run < kRuns; ++run) {
        const Status ran = co_await e->run();
        EXPECT_TRUE(ran.ok()) << ran.to_string();
        for (const std::string& name : outputs_of(random.graph))
          expect_near(*e->fetch(name), graph::interpret_output(random.graph, random.feeds, name), name);
      }
    });
  }
}

// y1 = x * a; y2 = y1 * b; y3 = y2 * c, each bound, with a notice and a gate.
struct Chain {
  Chain() {
    Builder b(graph);
    Value h = b.input("x", kF32, {2});
    for (const char* name : {"a", "b", "c"}) {
      h = b.mul(h, b.variable(name, kF32, {2}));
      const std::string y = fmt::format("y{}", name);
      b.output(y, h);
      options.notices.push_back({y, ""});
      options.bound.push_back(y);
      EXPECT_TRUE(variables.add(name, tensor({1, 1})).ok());
      memory.emplace(y, tensor({-1, -1}));
    }
    EXPECT_TRUE(b.status().ok());
  }
  Graph graph;
  CompileOptions options;
  Variables variables;
  std::map<std::string, Tensor> memory;
};

TEST_F(DeviceRuns, BoundOutputsAreInTheCallersMemoryWhenTheirNoticesComeInOrder) {
  Chain chain;
  const auto plan = compiled(chain.graph, chain.options);
  on_real([&](Runtime& rt) -> Task<void> {
    auto e = *make_execution(rt, plan, {.variables = &chain.variables, .bindings = chain.memory});
    const Tensor x = tensor({3, 5});
    EXPECT_TRUE(e->feed("x", x).ok());
    std::vector<int> heard;
    std::vector<float> seen;
    e->on_notice([&](int notice, const std::shared_ptr<Event>&) {
      heard.push_back(notice);
      seen.push_back(
          chain.memory.at(chain.options.notices[static_cast<std::size_t>(notice)].output).data<float>()[1]);
    });
    for (int run = 1; run <= kRuns; ++run) {
      heard.clear();
      seen.clear();
      for (const auto& [name, t] : chain.memory) t.data<float>()[1] = -1;
      x.data<float>()[1] = static_cast<float>(run);
      chain.variables.get("b")->data<float>()[1] = 2;
      EXPECT_TRUE((co_await e->run()).ok());
      EXPECT_THAT(heard, ElementsAre(0, 1, 2));
      const auto r = static_cast<float>(run);
      EXPECT_THAT(seen, ElementsAre(r, 2 * r, 2 * r));
      EXPECT_EQ(e->fetch("yc")->raw(), chain.memory.at("yc").raw()) << "fetched without a copy";
    }
  });
}

using End = runtime::OneShot<Status>;
Task<void> run_into(Execution& e, End& out) {
  Status status = co_await e.run();
  out.set(std::move(status));
}

TEST_F(DeviceRuns, WhatReadsAVariableWaitsForItsGateAndSeesWhatWasWrittenBefore) {
  Chain chain;
  for (const char* name : {"a", "b", "c"}) chain.options.gates.push_back({{name}});
  const auto plan = compiled(chain.graph, chain.options);
  on_real([&](Runtime& rt) -> Task<void> {
    Variables& v = chain.variables;
    auto e = *make_execution(rt, plan, {.variables = &v, .bindings = chain.memory});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    std::vector<int> heard;
    float factor = 0;
    e->on_notice([&](int notice, const std::shared_ptr<Event>&) {
      heard.push_back(notice);
      if (notice == 2) return;
      v.get(notice == 0 ? "b" : "c")->data<float>()[0] = factor + static_cast<float>(notice);
      e->open(notice + 1);
    });
    for (int run = 1; run <= kRuns; ++run) {
      heard.clear();
      factor = static_cast<float>(run);
      End ended(rt);
      rt.spawn(run_into(*e, ended));
      co_await turns(rt, 20);
      EXPECT_FALSE(ended.is_set()) << "the first gate is closed";
      v.get("a")->data<float>()[0] = 2;
      e->open(0);
      co_await ended.wait_until(kForever);
      EXPECT_TRUE(ended.value().ok()) << ended.value().to_string();
      EXPECT_THAT(heard, ElementsAre(0, 1, 2));
      EXPECT_EQ(bits(*e->fetch("yc")), bits(tensor({2 * factor * (factor + 1), 2})));
    }
  });
}

TEST_F(DeviceRuns, ACancelledRunEndsWithTheReasonAndTheNextOneRuns) {
  Chain chain;
  chain.options.gates.push_back({{"c"}});
  const auto plan = compiled(chain.graph, chain.options);
  on_real([&](Runtime& rt) -> Task<void> {
    auto e = *make_execution(rt, plan, {.variables = &chain.variables, .bindings = chain.memory});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    for (int run = 0; run < kRuns; ++run) {
      End ended(rt);
      rt.spawn(run_into(*e, ended));
      co_await turns(rt, 20);
      EXPECT_FALSE(ended.is_set()) << "the gate is closed";
      e->cancel(Status(Code::kPeerLost, "[test] the peer is gone"));
      co_await ended.wait_until(kForever);
      EXPECT_EQ(ended.value().code(), Code::kPeerLost);
      e->open(0);
      EXPECT_TRUE((co_await e->run()).ok());
      EXPECT_EQ(bits(*e->fetch("yc")), bits(tensor({1, 2})));
    }
  });
}

TEST_F(DeviceRuns, AFailingHostOpEndsTheRun) {
  Graph graph;
  Builder b(graph);
  b.output("y", b.tanh(host(b, b.tanh(b.input("x", kF32, {4})), "fail")));
  const auto plan = compiled(graph);
  on_real([&](Runtime& rt) -> Task<void> {
    DoublingHost doubling(rt);
    auto e = *make_execution(rt, plan, {.host_ops = {{"allreduce", &doubling}}});
    EXPECT_TRUE(e->feed("x", tensor({0, 0, 0, 0})).ok());
    EXPECT_EQ((co_await e->run()).code(), Code::kPeerLost);
    doubling.failing = false;
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(bits(*e->fetch("y")), bits(tensor({0, 0, 0, 0})));
  });
}

}  // namespace
}  // namespace trireme::exec
