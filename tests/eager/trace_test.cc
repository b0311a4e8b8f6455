// Traced functions, run by the executor: the bits of the imperative calls.
#include "trireme/eager/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "trireme/base/rng.h"
#include "trireme/eager/gradients.h"
#include "trireme/eager/ops.h"
#include "trireme/exec/session.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"

namespace trireme::eager {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  Philox rng(seed, 5);
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, shape});
  for (float& f : t.values<float>()) f = rng.next_uniform() - 0.5F;
  return t;
}

std::vector<std::byte> bits(const Tensor& t) { return {t.raw(), t.raw() + t.type().num_bytes()}; }

using Bits = std::map<std::string, std::vector<std::byte>>;

// A function with its inputs, for a fresh Context each time.
struct Case {
  const char* name;
  std::vector<std::pair<std::string, Tensor>> inputs;
  std::function<TracedFunction(Context&)> make;
};

// Outputs of the imperative calls; parameters afterwards as well.
Bits run_eagerly(const Case& c) {
  Context ctx;
  const TracedFunction f = c.make(ctx);
  std::vector<Array> inputs;
  for (const auto& [name, t] : c.inputs) inputs.push_back(ctx.array(t));
  Bits out;
  for (const auto& [name, a] : f(inputs)) {
    const auto t = a.tensor();
    EXPECT_TRUE(t.ok()) << c.name << " " << name << ": " << t.status().to_string();
    if (t.ok()) out[name] = bits(*t);
  }
  return out;
}

Bits run_traced(const Case& c, std::vector<std::string> passes = {}) {
  Context ctx;
  const TracedFunction f = c.make(ctx);
  std::vector<TraceInput> specs;
  exec::Feeds feeds;
  for (const auto& [name, t] : c.inputs) {
    specs.push_back({name, t.type()});
    feeds.emplace(name, t);
  }
  Result<Traced> traced = trace(ctx, specs, f);
  EXPECT_TRUE(traced.ok()) << c.name << ": " << traced.status().to_string();
  Bits out;
  if (!traced.ok()) return out;
  for (const auto& [name, t] : traced->captured) feeds.emplace(name, t);
  std::vector<std::string> fetches;
  for (const auto& [name, v] : traced->graph.outputs())
    if (!name.starts_with("updated:")) fetches.push_back(name);
  auto session = *exec::BlockingSession::make(traced->graph, {.passes = std::move(passes)}, 1);
  for (const auto& [name, t] : traced->variables) EXPECT_TRUE(session.variables().add(name, t).ok());
  const auto results = session.run(feeds, fetches, traced->updates);
  EXPECT_TRUE(results.ok()) << c.name << ": " << results.status().to_string();
  for (std::size_t i = 0; results.ok() && i < fetches.size(); ++i) out[fetches[i]] = bits((*results)[i]);
  return out;
}

TracedFunction mlp(Context& ctx) {
  const Array w1 = ctx.parameter("w1", random_tensor({6, 5}, 1)),
              b1 = ctx.parameter("b1", random_tensor({5}, 2));
  const Array w2 = ctx.parameter("w2", random_tensor({5, 3}, 3)), scale = ctx.array(random_tensor({3}, 4));
  return [=](std::span<const Array> in) -> NamedArrays {
    const Array h = tanh(matmul(in[0], w1) + b1);
    return {{"y", softmax(matmul(h, w2) * scale)}, {"h", h}, {"w1", w1}};
  };
}

TracedFunction cnn_step(Context& ctx) {
  const Array w = ctx.parameter("conv/weight", random_tensor({4, 1, 3, 3}, 1)),
              b = ctx.parameter("conv/bias", random_tensor({4}, 2)),
              fc = ctx.parameter("fc/weight", random_tensor({3, 64}, 3)),
              v = ctx.state("fc/velocity", random_tensor({3, 64}, 4));
  return [=](std::span<const Array> in) -> NamedArrays {
    const Array h = max_pool2d(relu(bias_add(conv2d(in[0], w, 1, 1), b)), 2, 2).reshape({2, 64});
    const Array loss = softmax_cross_entropy(matmul(h, fc, false, true), in[1], in[2]).sum();
    w.clear_grad();
    fc.clear_grad();
    loss.backward();
    const Array old_fc = fc.detached() * 1.0;
    apply_sgd(w, w.grad(), 0.1);
    apply_momentum(fc, v, fc.grad(), 0.1);
    return {{"loss", loss},     {"dw", w.grad()},   {"dfc", fc.grad()},
            {"old_fc", old_fc}, {"new_w", w * 1.0}, {"new_fc", fc * 1.0}};
  };
}

TracedFunction second_order(Context& ctx) {
  const Array w = ctx.parameter("w", random_tensor({4}, 7));
  return [=](std::span<const Array> in) -> NamedArrays {
    const Array x = in[0].watched();
    const Array y = (tanh(x * w) * exp(x)).sum();
    const Array d = gradients(y, std::vector{x}, {.create_graph = true})[0];
    return {{"d", d}, {"dd", gradients(square(d).sum(), std::vector{w})[0]}};
  };
}

std::vector<Case> cases() {
  const Tensor labels = Tensor::from<std::int32_t>(std::vector<std::int32_t>{2, 0}, {2});
  const Tensor weights = Tensor::from<float>(std::vector<float>{0.5F, 0.5F}, {2});
  return {{"mlp", {{"x", random_tensor({7, 6}, 9)}}, mlp},
          {"cnn_step",
           {{"images", random_tensor({2, 1, 8, 8}, 9)}, {"labels", labels}, {"weights", weights}},
           cnn_step},
          {"second_order", {{"x", random_tensor({4}, 9)}}, second_order}};
}

TEST(Trace, TheGraphGivesTheBitsOfTheCalls) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Bits eager = run_eagerly(c), traced = run_traced(c);
    EXPECT_FALSE(eager.empty());
    EXPECT_EQ(eager, traced);
  }
}

TEST(Trace, PassesKeepTheBitsOrStayWithinWhatTheTypeRounds) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Bits eager = run_eagerly(c);
    EXPECT_EQ(eager, run_traced(c, {"cse", "fold", "fuse"})) << "exact passes, fusion among them";
    std::vector<std::string> tolerant;
    for (const graph::PassRow& row : graph::pass_table())
      if (row.name != "lower_precision") tolerant.emplace_back(row.name);
    const Bits passed = run_traced(c, tolerant);
    for (const auto& [name, bytes] : eager) {
      ASSERT_EQ(passed.at(name).size(), bytes.size());
      for (std::size_t i = 0; i < bytes.size(); i += sizeof(float)) {
        float a = 0, b = 0;
        std::memcpy(&a, &bytes[i], sizeof a);
        std::memcpy(&b, &passed.at(name)[i], sizeof b);
        ASSERT_NEAR(a, b, 1e-5 * (1 + std::abs(a))) << name;
      }
    }
  }
}

TEST(Trace, UpdatesChangeTheParametersThemselves) {
  Context ctx;
  const Array w = ctx.parameter("w", *Tensor::from<float>(std::vector<float>{1, 2}, {2}).reshape({2}));
  const Traced t = *trace(ctx, {{"x", {DType::kF32, {2}}}}, [&](std::span<const Array> in) -> NamedArrays {
    const Array loss = (w * in[0]).sum();
    loss.backward();
    apply_sgd(w, w.grad(), 1.0);
    return {{"loss", loss}};
  });
  EXPECT_THAT(t.updates, ElementsAre("updated:w"));
  EXPECT_TRUE(w.grad().is_empty()) << "gradients of the trace stay in the trace";
  EXPECT_THAT(*w.values<float>(), ElementsAre(1, 2)) << "tracing changes nothing";
  auto session = *exec::BlockingSession::make(t.graph, {}, 1);
  for (const auto& [name, tensor] : t.variables) ASSERT_TRUE(session.variables().add(name, tensor).ok());
  const Tensor x = Tensor::from<float>(std::vector<float>{10, 20}, {2});
  ASSERT_TRUE(session.run({{"x", x}}, {"loss"}, t.updates).ok());
  EXPECT_THAT(*w.values<float>(), ElementsAre(-9, -18));
}

TEST(Trace, MistakesInsideFailTheTraceAndLeaveTheContextAsItWas) {
  Context ctx;
  const TensorType two{DType::kF32, {2}};
  const Array a = ctx.array({1, 2, 3}, {3});
  Array escaped;
  const auto fails = [&](const TracedFunction& f) {
    const Result<Traced> t = trace(ctx, {{"x", two}}, f);
    EXPECT_FALSE(t.ok());
    EXPECT_TRUE(ctx.status().ok());
    return t.ok() ? std::string() : t.status().message();
  };
  EXPECT_THAT(fails([&](std::span<const Array> in) {
                return NamedArrays{{"y", in[0] + a}};
              }),
              HasSubstr("[op add]"));
  EXPECT_THAT(fails([&](std::span<const Array> in) {
                relu(in[0] + a);
                return NamedArrays{{"y", in[0]}};
              }),
              HasSubstr("[op add]"))
      << "a failure counts even if nothing returned uses it";
  EXPECT_THAT(fails([&](std::span<const Array> in) {
                escaped = in[0];
                return NamedArrays{{"y", Array()}};
              }),
              HasSubstr("output 'y'"));
  EXPECT_THAT(relu(escaped).status().message(), HasSubstr("a trace that has ended"));
  ctx.clear_status();
  EXPECT_THAT(fails([&](std::span<const Array> in) {
                EXPECT_THAT(in[0].tensor().status().message(), HasSubstr("has no value"));
                const auto inner = trace(ctx, {}, [](std::span<const Array>) { return NamedArrays{}; });
                EXPECT_THAT(inner.status().message(), HasSubstr("inside a traced function"));
                return NamedArrays{{"y", relu(escaped)}};
              }),
              HasSubstr("a trace that has ended"));
  const Array v = ctx.state("v", random_tensor({2}, 1)), w = ctx.parameter("w", random_tensor({2}, 1));
  EXPECT_THAT(fails([&](std::span<const Array> in) {
                apply_momentum(w, v, in[0], 0.1);
                return NamedArrays{{"v", v * 2.0}};
              }),
              HasSubstr("'v' is used after apply_momentum changed it"));
}

}  // namespace
}  // namespace trireme::eager
