// Layers that are cut over ranks, with their gradients, against the same layers in one piece: in f64, over
// several steps with several runs under way at once.
#include "tests/comm/split_layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/comm/ranks.h"
#include "trireme/comm/host_ops.h"
#include "trireme/exec/executor.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {
namespace {

using graph::Builder;
using graph::Graph;
using runtime::Task;
using testing::Layers;

constexpr std::int64_t kSamples = 3;  // of a run
constexpr std::uint32_t kRuns = 2;    // of a rank in a step
constexpr std::int64_t kSlots = 1 << 10;

const Layers kLayers{{5, 7, 6, 4}, {"w1", "b1", "w2", "b2", "w3", "b3"}, DType::kF64};

Graph train_graph(std::int64_t samples, const testing::Share* share) {
  Graph g;
  Builder b(g);
  testing::Samples s{b.input("x", DType::kF64, {samples, kLayers.widths[0]}),
                     b.input("labels", DType::kI32, {samples}), b.input("weights", DType::kF32, {samples})};
  const graph::Value logits = share == nullptr ? testing::whole_layers(b, kLayers, s.x)
                                               : testing::split_layers(b, kLayers, *share, s);
  testing::add_scores(b, logits, s);
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  std::vector<graph::Value> wrt;
  for (const std::string& name : kLayers.names) wrt.push_back(*g.find_variable(name));
  const auto grads = graph::add_gradients(g, *g.find_output("loss"), wrt);
  EXPECT_TRUE(grads.ok()) << grads.status().to_string();
  for (std::size_t i = 0; i < wrt.size(); ++i) g.set_output("grad:" + kLayers.names[i], (*grads)[i]);
  auto numbered = graph::number_slots(g, 1000, kSlots);
  EXPECT_TRUE(numbered.ok()) << numbered.status().to_string();
  return *numbered;
}

// Looks random: in [-1, 1), from two numbers.
double noise(std::int64_t a, std::int64_t b) {
  const double v = 43758.5453 * std::sin(12.9898 * static_cast<double>(a) + 78.233 * static_cast<double>(b));
  return 2 * (v - std::floor(v)) - 1;
}

void make_variables(exec::Variables& variables) {
  for (std::size_t i = 0; i < kLayers.names.size(); ++i) {
    const std::int64_t out = kLayers.widths[i / 2 + 1], in = kLayers.widths[i / 2];
    std::vector<double> values(static_cast<std::size_t>(i % 2 == 0 ? out * in : out));
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] = noise(static_cast<std::int64_t>(i) + 1, static_cast<std::int64_t>(k));
    const Shape shape = i % 2 == 0 ? Shape{out, in} : Shape{out};
    EXPECT_TRUE(variables.add(kLayers.names[i], Tensor::from<double>(values, shape)).ok());
  }
}

// Sample `first` and those that follow it.
void feed(exec::Execution& e, std::int64_t first, std::int64_t count) {
  std::vector<double> x;
  std::vector<std::int32_t> labels;
  const std::vector<float> weights(static_cast<std::size_t>(count), 0.25F);
  for (std::int64_t s = first; s < first + count; ++s) {
    for (std::int64_t k = 0; k < kLayers.widths[0]; ++k) x.push_back(noise(100 + s, k));
    labels.push_back(static_cast<std::int32_t>(s % kLayers.widths[3]));
  }
  EXPECT_TRUE(e.feed("x", Tensor::from<double>(x, {count, kLayers.widths[0]})).ok());
  EXPECT_TRUE(e.feed("labels", Tensor::from<std::int32_t>(labels, {count})).ok());
  EXPECT_TRUE(e.feed("weights", Tensor::from<float>(weights, {count})).ok());
}

using Values = std::vector<double>;
Values fetched(const exec::Execution& e, const std::string& name) {
  const Tensor t = *e.fetch(name);
  const auto v = t.values<double>();
  return {v.begin(), v.end()};
}

void expect_close(const Values& got, const Values& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-12 * (1 + std::abs(want[i]))) << what << " " << i;
}

// w -= g.
void apply(exec::Variables& variables, const std::string& name, const Values& gradient) {
  const Tensor w = *variables.get(name);
  for (std::size_t i = 0; i < gradient.size(); ++i) w.values<double>()[i] -= 0.1 * gradient[i];
}

const std::vector<std::string>& outputs() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names{"loss"};
    for (const std::string& name : kLayers.names) names.push_back("grad:" + name);
    return names;
  }();
  return kNames;
}

struct Rank {
  Rank(runtime::Runtime& rt, Group& group, const Graph& split, const Graph& whole)
      : ops(make_host_ops(group, kRuns)) {
    make_variables(own);
    make_variables(reference);
    const auto compiled = *exec::compile(split, {});
    for (std::uint32_t k = 0; k < kRuns; ++k)
      runs.push_back(*exec::make_execution(rt, compiled, {.variables = &own, .host_ops = ops->table()}));
    one = *exec::make_execution(rt, *exec::compile(whole, {}), {.variables = &reference});
  }
  std::unique_ptr<HostOpTable> ops;
  exec::Variables own, reference;
  std::vector<std::unique_ptr<exec::Execution>> runs;
  std::unique_ptr<exec::Execution> one;
};

Task<void> train(runtime::Runtime& rt, Group& group, const Graph& split, const Graph& whole) {
  const std::int64_t world = group.world(), in_step = world * kRuns * kSamples;
  Rank rank(rt, group, split, whole);
  for (std::int64_t step = 0; step < 3; ++step) {
    std::vector<Task<Status>> running;
    for (std::uint32_t i = 0; i < kRuns; ++i) {
      // Every rank in another order.
      const std::uint32_t k = (i + static_cast<std::uint32_t>(group.rank())) % kRuns;
      feed(*rank.runs[k], step * in_step + (k * world + group.rank()) * kSamples, kSamples);
      running.push_back(rank.runs[k]->run({.number = static_cast<std::uint64_t>(step) * kRuns + k}));
    }
    const Status ran = co_await runtime::when_all(rt, std::move(running));
    EXPECT_TRUE(ran.ok()) << ran.to_string();
    feed(*rank.one, step * in_step, in_step);
    EXPECT_TRUE((co_await rank.one->run()).ok());
    if (!ran.ok()) co_return;
    for (std::size_t i = 0; i < outputs().size(); ++i) {
      const std::string& name = outputs()[i];
      Values sum = fetched(*rank.runs[0], name);
      const Values second = fetched(*rank.runs[1], name);
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += second[j];
      const Tensor all = Tensor::from<double>(sum, {static_cast<std::int64_t>(sum.size())});
      Call call;
      call.slot = static_cast<std::uint16_t>(i);
      call.step = static_cast<std::uint32_t>(step);
      EXPECT_TRUE((co_await group.allreduce(std::move(call), all)).ok());
      sum.assign(all.values<double>().begin(), all.values<double>().end());
      const Values want = fetched(*rank.one, name);
      expect_close(sum, want, fmt::format("{} at step {}", name, step));
      if (i == 0) continue;
      apply(rank.own, name.substr(5), sum);
      apply(rank.reference, name.substr(5), want);
    }
  }
}

TEST(SplitLayers, LearnAsTheWholeOnes) {
  for (int world = 1; world <= 4; ++world) {
    SCOPED_TRACE(fmt::format("world {}", world));
    const Graph whole = train_graph(world * kRuns * kSamples, nullptr);
    const testing::Body body = [&](runtime::Runtime& rt, Group& group) -> Task<void> {
      const testing::Share share{group.rank(), group.world(), true};
      const Graph split = train_graph(kSamples, &share);
      co_await train(rt, group, split, whole);
      EXPECT_TRUE((co_await group.leave()).ok());
    };
    testing::RankOptions options;
    options.world = world;
    testing::run_on_threads(options, body);
    testing::expect_finished(testing::run_virtual(options, {}, body));
  }
}

TEST(SplitLayers, HaveAllOpsOfTheFamilyInTheirTrainGraph) {
  const testing::Share share{1, 3, true};
  const Graph g = train_graph(kSamples, &share);
  std::map<std::string_view, int> counts;
  for (std::int32_t i = 0; i < g.size(); ++i) ++counts[g.node(i).def->name];
  EXPECT_EQ(counts["broadcast"], 1);
  EXPECT_EQ(counts["send"], 3);
  EXPECT_EQ(counts["recv"], 3);
  EXPECT_EQ(counts["allgather"], 3) << "two, and the gradient of the reduce_scatter";
  EXPECT_EQ(counts["reduce_scatter"], 2) << "one, and the gradient of an allgather";
  EXPECT_EQ(counts["allreduce"], 2) << "one, and its gradient";
}

}  // namespace
}  // namespace trireme::comm
