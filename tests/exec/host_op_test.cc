// Host ops that end late, out of order or with an error, and notices of final outputs.
#include "trireme/exec/host_op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/exec/fixtures.h"
#include "trireme/graph/pass/passes.h"

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

TEST(HostOps, SuspendOnlyTheirDependents) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2});
  const Value held = b.add(host(b, x, "hold"), x);
  b.output("held", held);
  b.output("free", b.mul(x, x));
  on_all([&](Runtime& rt) -> Task<void> {
    DoublingHost doubling(rt);
    auto e = *make_execution(rt, *compile(g, {.notices = {{"free", ""}, {"held", ""}}}),
                             {.host_ops = {{"allreduce", &doubling}}});
    EXPECT_TRUE(e->feed("x", tensor({1, 3})).ok());
    std::vector<int> order;
    e->on_notice([&](int notice, const std::shared_ptr<Event>&) {
      order.push_back(notice);
      doubling.release();  // only what does not depend on the host op can get here first
    });
    const Status s = co_await e->run();
    EXPECT_TRUE(s.ok()) << s.to_string();
    EXPECT_THAT(order, ElementsAre(0, 1));
    EXPECT_EQ(bits(*e->fetch("held")), bits(tensor({3, 9})));
    EXPECT_EQ(bits(*e->fetch("free")), bits(tensor({1, 9})));
  });
}

TEST(HostOps, MayEndOutOfOrder) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {1});
  const Value slow = host(b, x, "hold"), quick = host(b, b.add(x, x), "late:1");
  b.output("quick", b.relu(quick));
  b.output("sum", b.add(slow, quick));
  on_all([&](Runtime& rt) -> Task<void> {
    DoublingHost doubling(rt);
    auto e = *make_execution(rt, *compile(g, {.notices = {{"quick", ""}}}),
                             {.host_ops = {{"allreduce", &doubling}}});
    EXPECT_TRUE(e->feed("x", tensor({1})).ok());
    e->on_notice([&](int, const std::shared_ptr<Event>&) { doubling.release(); });
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_THAT(doubling.ended, ElementsAre("allreduce_1", "allreduce"));
    EXPECT_EQ(bits(*e->fetch("sum")), bits(tensor({6})));
  });
}

TEST(HostOps, AnErrorEndsTheRunAfterWhatRunsHasDrainedAndTheNextRunWorks) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {1});
  const Value failing = host(b, x, "fail"), other = host(b, b.add(x, x), "late:9");
  const Value after = host(b, failing, "");
  b.output("sum", b.add(after, other));
  on_all([&](Runtime& rt) -> Task<void> {
    DoublingHost doubling(rt);
    auto e = *make_execution(rt, *compile(g, {.notices = {{"sum", ""}}}),
                             {.host_ops = {{"allreduce", &doubling}}});
    EXPECT_TRUE(e->feed("x", tensor({1})).ok());
    int notices = 0;
    e->on_notice([&](int, const std::shared_ptr<Event>&) { ++notices; });
    const Status s = co_await e->run();
    EXPECT_EQ(s.code(), Code::kPeerLost) << s.to_string();
    EXPECT_EQ(doubling.started.size(), doubling.ended.size()) << "nothing is left running";
    EXPECT_THAT(doubling.started, ::testing::Not(::testing::Contains(g.node(after.node).name)));
    EXPECT_EQ(notices, 0);
    EXPECT_EQ(e->fetch("sum").status().code(), Code::kInvalid);

    doubling.failing = false;
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(notices, 1);
    EXPECT_EQ(bits(*e->fetch("sum")), bits(tensor({8})));
  });
}

// A host call that ends only when it is cancelled, beside one that `label` describes.
Graph beside_a_call_that_never_ends(const std::string& label) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {1});
  b.output("sum", b.add(host(b, x, "never"), host(b, b.add(x, x), label)));
  return g;
}

TEST(HostOps, AFailingRunCancelsTheCallsUnderWay) {
  const Graph g = beside_a_call_that_never_ends("fail");
  on_all([&](Runtime& rt) -> Task<void> {
    DoublingHost doubling(rt);
    auto e = *make_execution(rt, *compile(g, {}), {.host_ops = {{"allreduce", &doubling}}});
    EXPECT_TRUE(e->feed("x", tensor({1})).ok());
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ((co_await e->run()).code(), Code::kPeerLost);
      EXPECT_EQ(doubling.started.size(), doubling.ended.size());
    }
    EXPECT_EQ(doubling.reasons.size(), 2U);
    for (const Status& why : doubling.reasons) EXPECT_EQ(why.code(), Code::kPeerLost);
  });
}

TEST(HostOps, ACancelledRunCancelsTheCallsUnderWay) {
  const Graph g = beside_a_call_that_never_ends("");
  on_all([&](Runtime& rt) -> Task<void> {
    DoublingHost doubling(rt);
    auto e = *make_execution(rt, *compile(g, {}), {.host_ops = {{"allreduce", &doubling}}});
    EXPECT_TRUE(e->feed("x", tensor({1})).ok());
    rt.post([&] { e->cancel(Status(Code::kUnavailable, "[test] no more")); });
    EXPECT_EQ((co_await e->run()).code(), Code::kUnavailable);
    EXPECT_EQ(doubling.started.size(), doubling.ended.size());
    EXPECT_EQ(doubling.reasons.at(0).code(), Code::kUnavailable);
  });
}

TEST(HostOps, ARunPastItsDeadlineIsCancelled) {
  const Graph g = beside_a_call_that_never_ends("");
  const Body body = [&](Runtime& rt) -> Task<void> {
    DoublingHost doubling(rt);
    auto e = *make_execution(rt, *compile(g, {}), {.host_ops = {{"allreduce", &doubling}}});
    EXPECT_TRUE(e->feed("x", tensor({1})).ok());
    const TimeNs deadline = rt.now() + 2 * kMilli;
    EXPECT_EQ((co_await e->run({.deadline = deadline})).code(), Code::kDeadline);
    EXPECT_GE(rt.now(), deadline);
  };
  on_real(body);
  on_virtual(body);
}

TEST(HostOps, AnAbandonedRunCancelsTheCallsUnderWay) {
  const Graph g = beside_a_call_that_never_ends("late:2");
  const Body body = [&](Runtime& rt) -> Task<void> {
    DoublingHost doubling(rt);
    auto e = *make_execution(rt, *compile(g, {}), {.host_ops = {{"allreduce", &doubling}}});
    EXPECT_TRUE(e->feed("x", tensor({1})).ok());
    {
      Task<Status> run = e->run();
      run.start();
      EXPECT_FALSE(run.done());
      while (doubling.started.size() < 2) co_await turns(rt, 1);
    }
    while (doubling.ended.size() < 2) co_await turns(rt, 1);
    EXPECT_EQ(doubling.reasons.at(0).code(), Code::kCancelled);
  };
  on_real(body);
  for (std::uint64_t seed = 0; seed < 30; ++seed) on_shuffled(body, seed);
}

TEST(HostOps, HearWhichRunTheyBelongTo) {
  Graph g;
  Builder b(g);
  b.output("y", host(b, b.input("x", kF32, {1})));
  on_all([&](Runtime& rt) -> Task<void> {
    DoublingHost doubling(rt);
    auto e = *make_execution(rt, *compile(g, {}), {.host_ops = {{"allreduce", &doubling}}});
    EXPECT_TRUE(e->feed("x", tensor({1})).ok());
    EXPECT_TRUE((co_await e->run({.number = std::uint64_t{7} << 40})).ok());
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_THAT(doubling.runs, ElementsAre(std::uint64_t{7} << 40, 0));
  });
}

TEST(HostOps, AMissingImplementationIsNamed) {
  Graph g;
  Builder b(g);
  b.output("y", host(b, b.input("x", kF32, {1})));
  on_virtual([&](Runtime& rt) -> Task<void> {
    EXPECT_THAT(make_execution(rt, *compile(g, {}), {}).status().message(),
                HasSubstr("no host op 'allreduce'"));
    co_return;
  });
}

// Two layers; gradients of both parameters, as a trainer would ask for them.
struct TwoLayers {
  TwoLayers() {
    Builder b(graph);
    const Value x = b.input("x", kF32, {4, 4}), w1 = b.variable("w1", kF32, {4, 4}),
                w2 = b.variable("w2", kF32, {4, 4});
    const Value loss = b.sum(b.tanh(b.matmul(b.tanh(b.matmul(x, w1)), w2)));
    b.output("loss", loss);
    const std::vector<Value> grads = *graph::add_gradients(graph, loss, std::vector{w1, w2});
    b.output("grad:w1", grads[0]);
    b.output("grad:w2", grads[1]);
    EXPECT_TRUE(b.status().ok());
    for (const char* name : {"x", "w1", "w2"}) {
      Tensor t = *Tensor::allocate(cpu_device(), {kF32, {4, 4}});
      for (std::size_t i = 0; i < 16; ++i)
        t.values<float>()[i] = 0.1F * static_cast<float>((i * 7 + name[1]) % 11) - 0.4F;
      feeds.emplace(name, t);
    }
  }
  Graph graph;
  Feeds feeds;
};

TEST(Notices, ComeInOrderAndOnlyWhenTheOwnerMayOverwriteTheParameter) {
  const TwoLayers net;
  const auto expected = [&](const char* name) {
    return bits(graph::interpret_output(net.graph, net.feeds, name));
  };
  on_all([&](Runtime& rt) -> Task<void> {
    const Feeds own = graph::copy_of(net.feeds);
    Variables v = variables_of(net.graph, own);
    const Buffer bucket = *cpu_device().allocate(256);
    // Gradients live in the caller's bucket, w2 first, at an offset that is no multiple of a cache line.
    const Tensor g1(bucket, {kF32, {4, 4}}, 4 + 64), g2(bucket, {kF32, {4, 4}}, 4);
    auto compiled = *compile(net.graph, {.bound = {"grad:w1", "grad:w2"},
                                         .notices = {{"grad:w1", "w1"}, {"grad:w2", "w2"}},
                                         .kernels = reference_kernels()});
    EXPECT_GE(compiled->num_strands(), 2);
    auto e = *make_execution(rt, compiled, {.variables = &v, .bindings = {{"grad:w1", g1}, {"grad:w2", g2}}});
    EXPECT_TRUE(e->feed("x", own.at("x")).ok());
    std::vector<int> order;
    e->on_notice([&](int notice, const std::shared_ptr<Event>& ready) {
      order.push_back(notice);
      EXPECT_EQ(ready, nullptr);
      EXPECT_EQ(bits(notice == 0 ? g1 : g2), expected(notice == 0 ? "grad:w1" : "grad:w2"));
      for (float& f : own.at(notice == 0 ? "w1" : "w2").values<float>())
        f = std::numeric_limits<float>::quiet_NaN();
    });
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_THAT(order, ElementsAre(1, 0)) << "backward reaches the second layer first";
    EXPECT_EQ(bits(g1), expected("grad:w1"));
    EXPECT_EQ(bits(g2), expected("grad:w2"));
    EXPECT_EQ(bits(*e->fetch("grad:w1")), expected("grad:w1"));
    EXPECT_EQ(e->fetch("grad:w1")->raw(), g1.raw());
  });
}

TEST(Bindings, OfOneValueUnderTwoNamesAreBothFilled) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2, 2}), y = b.add(x, x);
  b.output("a", y);
  b.output("b", b.reshape(y, {4}));
  b.output("c", x);
  on_all([&](Runtime& rt) -> Task<void> {
    const Buffer bucket = *cpu_device().allocate(48);
    const Tensor a(bucket, {kF32, {2, 2}}), flat(bucket, {kF32, {4}}, 16), c(bucket, {kF32, {2, 2}}, 32);
    auto e = *make_execution(rt, *compile(g, {.bound = {"a", "b", "c"}}),
                             {.bindings = {{"a", a}, {"b", flat}, {"c", c}}});
    EXPECT_TRUE(e->feed("x", *tensor({1, 2, 3, 4}).reshape({2, 2})).ok());
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(bits(a), bits(tensor({2, 4, 6, 8})));
    EXPECT_EQ(bits(flat), bits(tensor({2, 4, 6, 8})));
    EXPECT_EQ(bits(c), bits(tensor({1, 2, 3, 4})));
  });
}

}  // namespace
}  // namespace trireme::exec
