// Runs that start while some variables are still being written: gates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/exec/fixtures.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/runtime/sync.h"

namespace trireme::exec {
namespace {

using graph::bits;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void on_all(const Body& body) {
  on_real(body);
  on_virtual(body);
  for (std::uint64_t seed = 0; seed < 30; ++seed) on_shuffled(body, seed);
}

// y1 = x * a; y2 = y1 * b; y3 = y2 * c. A notice after each; a gate each for a, for b, and for c.
struct Chain {
  Chain() {
    Builder b(graph);
    Value h = b.input("x", kF32, {2});
    for (const char* name : {"a", "b", "c"}) {
      h = b.mul(h, b.variable(name, kF32, {2}));
      b.output(fmt::format("y{}", name), h);
      options.notices.push_back({fmt::format("y{}", name), ""});
      options.gates.push_back({{name}});
    }
    EXPECT_TRUE(b.status().ok());
  }
  Variables variables() const {
    Variables v;
    for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(v.add(name, tensor({1, 1})).ok());
    return v;
  }
  Graph graph;
  CompileOptions options;
};

using End = runtime::OneShot<Status>;
Task<void> run_into(Execution& e, End& out) {
  Status status = co_await e.run();
  out.set(std::move(status));
}

TEST(Gates, WhatReadsAVariableWaitsForItsGateAndSeesWhatWasWrittenBefore) {
  const Chain chain;
  const auto compiled = *compile(chain.graph, chain.options);
  on_all([&](Runtime& rt) -> Task<void> {
    Variables v = chain.variables();
    auto e = *make_execution(rt, compiled, {.variables = &v});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    std::vector<int> heard;
    e->on_notice([&](int notice, const std::shared_ptr<Event>&) {
      heard.push_back(notice);
      // The writer of the next variable is done only now.
      if (notice == 2) return;
      v.get(notice == 0 ? "b" : "c")->data<float>()[0] = notice == 0 ? 3.0F : 5.0F;
      e->open(notice + 1);
    });
    End ended(rt);
    rt.spawn(run_into(*e, ended));
    co_await turns(rt, 20);
    EXPECT_FALSE(ended.is_set()) << "the first gate is closed";
    EXPECT_TRUE(heard.empty());
    v.get("a")->data<float>()[0] = 2;
    e->open(0);
    co_await ended.wait_until(kForever);
    EXPECT_TRUE(ended.value().ok()) << ended.value().to_string();
    EXPECT_THAT(heard, ElementsAre(0, 1, 2));
    EXPECT_EQ(bits(*e->fetch("yc")), bits(tensor({30, 2})));
  });
}

TEST(Gates, OpenedBeforeTheRunDoNotHoldItAndCloseWithIt) {
  const Chain chain;
  const auto compiled = *compile(chain.graph, chain.options);
  on_all([&](Runtime& rt) -> Task<void> {
    Variables v = chain.variables();
    auto e = *make_execution(rt, compiled, {.variables = &v});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    for (int g = 0; g < 3; ++g) e->open(g);
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(e->held_ns(), 0);
    End again(rt);
    rt.spawn(run_into(*e, again));
    co_await turns(rt, 20);
    EXPECT_FALSE(again.is_set()) << "gates close when a run ends";
    // In any order, and more than once.
    for (const int g : {2, 1, 1, 0}) e->open(g);
    co_await again.wait_until(kForever);
    EXPECT_TRUE(again.value().ok());
  });
}

// Two products, of which the second is bound to memory that is somebody else's until its gate opens.
TEST(Gates, StandBeforeWhatWritesAnOutput) {
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", kF32, {2});
  const Value first = b.mul(x, x);
  b.output("first", first);
  b.output("second", b.mul(first, x));
  ASSERT_TRUE(b.status().ok());
  CompileOptions options;
  options.bound = {"first", "second"};
  options.notices = {{"first", ""}, {"second", ""}};
  options.gates = {{.variables = {}, .outputs = {"second"}}};
  const auto compiled = *compile(graph, options);
  EXPECT_FALSE(compiled->is_behind(0, 0));
  EXPECT_TRUE(compiled->is_behind(1, 0));
  on_all([&](Runtime& rt) -> Task<void> {
    const Tensor one = tensor({0, 0}), same = tensor({7, 7});
    auto e = *make_execution(rt, compiled, {.bindings = {{"first", one}, {"second", same}}});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    e->on_notice([&](int notice, const std::shared_ptr<Event>&) {
      if (notice == 1) return;
      EXPECT_EQ(bits(one), bits(tensor({1, 4})));
      EXPECT_EQ(bits(same), bits(tensor({7, 7}))) << "nobody may write there yet";
      e->open(0);
    });
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(bits(same), bits(tensor({1, 8})));
  });
  options.bound = {"first"};
  EXPECT_EQ(compile(graph, options).status().code(), Code::kNotFound) << "its memory is nobody else's";
}

// y = (x * a) * a, read before and behind the first product.
TEST(Gates, StandBeforeReadersUpToAnOutputOrBehindIt) {
  Graph graph;
  Builder b(graph);
  const Value a = b.variable("a", kF32, {2});
  const Value middle = b.mul(b.input("x", kF32, {2}), a);
  b.output("middle", middle);
  b.output("y", b.mul(b.add(middle, middle), a));
  ASSERT_TRUE(b.status().ok());
  using Readers = VariableGate::Readers;
  CompileOptions options;
  options.gates = {{{"a"}, Readers::kUpTo, "middle"}, {{"a"}, Readers::kBehind, "middle"}};
  options.notices = {{.output = "", .variable = "", .after_gate = 0}};
  const auto compiled = *compile(graph, options);
  on_all([&](Runtime& rt) -> Task<void> {
    Variables v;
    EXPECT_TRUE(v.add("a", tensor({0, 0})).ok());
    auto e = *make_execution(rt, compiled, {.variables = &v});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    const auto set = [&](float to) { v.get("a")->data<float>()[0] = v.get("a")->data<float>()[1] = to; };
    int opened = 0, read = 0;
    e->on_held([&] {  // may be told more than once
      set(opened == 0 ? 2.0F : 3.0F);
      EXPECT_EQ(read, opened);
      if (opened < 2) e->open(opened++);
    });
    e->on_notice([&](int, const std::shared_ptr<Event>&) {
      ++read;
      set(0);
    });
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(bits(*e->fetch("y")), bits(tensor({12, 24})));
    EXPECT_EQ(opened, 2);
    EXPECT_EQ(read, 1);
  });
  options.gates[0].split = "nothing";
  EXPECT_EQ(compile(graph, options).status().code(), Code::kNotFound);
  options.gates[0].split = "middle";
  options.notices[0].after_gate = 2;
  EXPECT_EQ(compile(graph, options).status().code(), Code::kInvalid);
}

TEST(Gates, TheTimeThatARunStandsStillIsKnown) {
  const Chain chain;
  const auto compiled = *compile(chain.graph, chain.options);
  on_virtual([&](Runtime& rt) -> Task<void> {
    Variables v = chain.variables();
    auto e = *make_execution(rt, compiled, {.variables = &v});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    e->open(0);
    e->open(2);
    End ended(rt);
    const TimeNs began = rt.now();
    rt.spawn(run_into(*e, ended));
    co_await rt.sleep_for(kMilli);
    e->open(1);
    co_await ended.wait_until(kForever);
    EXPECT_GT(e->held_ns(), 9 * kMilli / 10);
    EXPECT_LT(e->held_ns(), kMilli) << "the first layer ran meanwhile";
    EXPECT_LT(rt.now() - began, 2 * kMilli);
  });
}

TEST(Gates, ACancelledRunEndsAlthoughNobodyOpensThem) {
  const Chain chain;
  const auto compiled = *compile(chain.graph, chain.options);
  on_all([&](Runtime& rt) -> Task<void> {
    Variables v = chain.variables();
    auto e = *make_execution(rt, compiled, {.variables = &v});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    e->open(0);
    End ended(rt);
    rt.spawn(run_into(*e, ended));
    co_await turns(rt, 7);
    e->cancel(Status(Code::kPeerLost, "[test] rank 3 is gone"));
    EXPECT_FALSE(ended.is_set()) << "never inside the call";
    co_await ended.wait_until(kForever);
    EXPECT_EQ(ended.value().code(), Code::kPeerLost);
    EXPECT_EQ(e->fetch("yc").status().code(), Code::kInvalid);
    e->cancel(Status(Code::kPeerLost, "[test] nothing runs"));
    for (int g = 0; g < 3; ++g) e->open(g);
    EXPECT_TRUE((co_await e->run()).ok()) << "it can run again";
  });
}

TEST(Gates, AFailingHostOpEndsARunThatWaitsForThem) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {1});
  b.output("y", b.mul(x, b.variable("w", kF32, {1})));
  b.output("z", host(b, x, "fail"));
  const auto compiled = *compile(g, {.gates = {{{"w"}}}});
  on_all([&](Runtime& rt) -> Task<void> {
    DoublingHost doubling(rt);
    Variables v;
    EXPECT_TRUE(v.add("w", tensor({1})).ok());
    auto e = *make_execution(rt, compiled, {.variables = &v, .host_ops = {{"allreduce", &doubling}}});
    EXPECT_TRUE(e->feed("x", tensor({1})).ok());
    EXPECT_EQ((co_await e->run()).code(), Code::kPeerLost);
  });
}

TEST(Gates, ARunAbandonedWhileTheyAreClosedLeavesTheExecutionUsable) {
  const Chain chain;
  const auto compiled = *compile(chain.graph, chain.options);
  on_all([&](Runtime& rt) -> Task<void> {
    Variables v = chain.variables();
    auto e = *make_execution(rt, compiled, {.variables = &v});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    {
      Task<Status> abandoned = e->run();
      abandoned.start();
    }
    for (int g = 0; g < 3; ++g) e->open(g);
    EXPECT_TRUE((co_await e->run()).ok());
  });
}

TEST(Gates, HoldReadersInEveryLaneAndHostOpsThemselves) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {1}), w = b.variable("w", kF32, {1});
  const Value sent = host(b, b.reshape(w, {1}), "");  // reads a view of the variable
  b.output("sum", b.add(host(b, x, ""), w));          // in the lane behind a host op
  b.output("sent", b.add(sent, x));
  b.output("free", b.mul(x, x));
  const auto compiled = *compile(g, {.notices = {{"free", ""}}, .gates = {{{"w"}}}});
  on_all([&](Runtime& rt) -> Task<void> {
    DoublingHost doubling(rt);
    Variables v;
    EXPECT_TRUE(v.add("w", tensor({1})).ok());
    auto e = *make_execution(rt, compiled, {.variables = &v, .host_ops = {{"allreduce", &doubling}}});
    EXPECT_TRUE(e->feed("x", tensor({1})).ok());
    End free(rt);
    e->on_notice([&](int, const std::shared_ptr<Event>&) { free.set(Status()); });
    End ended(rt);
    rt.spawn(run_into(*e, ended));
    co_await free.wait_until(kForever);
    co_await turns(rt, 20);
    EXPECT_FALSE(ended.is_set());
    EXPECT_EQ(doubling.started.size(), 1U) << "only the one that does not read the variable";
    v.get("w")->data<float>()[0] = 7;
    e->open(0);
    co_await ended.wait_until(kForever);
    EXPECT_EQ(bits(*e->fetch("sum")), bits(tensor({9})));
    EXPECT_EQ(bits(*e->fetch("sent")), bits(tensor({15})));
  });
}

TEST(Gates, CutStrandsOnlyWhereTheyAreAskedFor) {
  const Chain chain;
  CompileOptions plain;
  EXPECT_EQ((*compile(chain.graph, plain))->num_strands(), 1);
  plain.gates = {{{"b"}}};
  const auto compiled = *compile(chain.graph, plain);
  EXPECT_EQ(compiled->num_strands(), 2);
  const Outline outline = compiled->outline();
  EXPECT_EQ(outline.strands.size(), 2U);
  EXPECT_THAT(outline.gate_before, ElementsAre(1));
  plain.gates = {{{"b", "a"}}, {{"b"}}, {}};
  EXPECT_THAT((*compile(chain.graph, plain))->outline().gate_before, ElementsAre(0, 1, -1));
  plain.gates = {};
  plain.notices = {{"ya", ""}, {"yc", ""}};
  EXPECT_THAT((*compile(chain.graph, plain))->outline().notice_after, ElementsAre(0, 1));
}

TEST(Gates, ForAVariableThatTheGraphDoesNotHaveAreRefused) {
  const Chain chain;
  const Status s = compile(chain.graph, {.gates = {{{"a", "nobody"}}}}).status();
  EXPECT_EQ(s.code(), Code::kNotFound);
  EXPECT_THAT(s.message(), HasSubstr("gate for variable 'nobody'"));
  EXPECT_THAT(s.message(), HasSubstr("a, b, c"));
}

}  // namespace
}  // namespace trireme::exec
