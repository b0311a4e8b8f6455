// Graphs that are run in phases, several Executions taking turns over one scratch memory: the same bits as
// whole runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/exec/counting_device.h"
#include "tests/exec/fixtures.h"
#include "tests/graph/random_graph.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/runtime/sync.h"

namespace trireme::exec {
namespace {

using graph::bits;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Outputs = std::map<std::string, std::vector<std::byte>>;

constexpr int kLayers = 4;

// A segment of a net: y = f(x), and for a gradient dy that comes in, dx and the gradients of the weights.
Graph segment(std::int64_t rows = 8) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {rows, 16}), dy = b.input("dy", kF32, {rows, 16});
  std::vector<Value> wrt{x};
  Value h = x;
  for (int i = 0; i < kLayers; ++i) {
    wrt.push_back(b.variable(fmt::format("w{}", i), kF32, {16, 16}));
    wrt.push_back(b.variable(fmt::format("b{}", i), kF32, {16}));
    h = b.tanh(b.bias_add(b.matmul(h, wrt[wrt.size() - 2]), wrt.back()));
  }
  b.output("y", h);
  const std::vector<Value> grads =
      *graph::add_gradients(g, std::vector<Value>{h}, std::vector<Value>{dy}, wrt);
  b.output("dx", grads[0]);
  for (std::size_t i = 1; i < grads.size(); ++i)
    b.output(fmt::format("d{}{}", i % 2 == 1 ? "w" : "b", (i - 1) / 2), grads[i]);
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return g;
}

std::vector<std::vector<std::string>> segment_phases() {
  std::vector<std::vector<std::string>> phases{{"y"}, {"dx"}, {}};
  for (int i = 0; i < kLayers; ++i)
    for (const char* kind : {"w", "b"}) phases[2].push_back(fmt::format("d{}{}", kind, i));
  return phases;
}

CompileOptions phased(std::vector<std::vector<std::string>> phases) {
  return {.kernels = reference_kernels(), .phases = std::move(phases)};
}

Tensor random_tensor(const TensorType& type, std::uint64_t seed) {
  Tensor t = *Tensor::allocate(cpu_device(), type);
  Philox rng(seed, 13);
  for (float& f : t.values<float>()) f = rng.next_uniform() - 0.5F;
  return t;
}

Feeds segment_feeds(const Graph& g, std::uint64_t sample) {
  Feeds feeds;
  for (const auto& [name, v] : g.variables()) feeds.emplace(name, random_tensor(g.type(v), 5));
  for (const char* name : {"x", "dy"})
    feeds.emplace(name, random_tensor(g.type(*g.find_input(name)), 100 + 2 * sample + (name[0] == 'x')));
  return feeds;
}

Outputs fetch_all(const Execution& e, const Graph& g) {
  Outputs out;
  for (const auto& [name, v] : g.outputs()) {
    const Result<Tensor> t = e.fetch(name);
    EXPECT_TRUE(t.ok()) << t.status().to_string();
    if (t.ok()) out[name] = bits(*t);
  }
  return out;
}

// What one run without phases gives.
Outputs plain_outputs(const Graph& g, const Feeds& feeds) {
  Outputs out;
  on_virtual([&](Runtime& rt) -> Task<void> {
    Variables v = variables_of(g, feeds);
    auto e = *make_execution(rt, *compile(g, {.kernels = reference_kernels()}), {.variables = &v});
    EXPECT_TRUE(feed_all(*e, g, feeds).ok());
    EXPECT_TRUE((co_await e->run()).ok());
    out = fetch_all(*e, g);
  });
  return out;
}

void poison(const Buffer& scratch) {
  std::fill_n(scratch.data(), scratch.size_bytes(), std::byte{0xFF});  // NaN, as floats
}

// (micro-batch, phase), in the order of a timetable.
using Timetable = std::vector<std::pair<std::size_t, int>>;

Timetable one_after_the_other(std::size_t n) {
  Timetable t;
  for (std::size_t m = 0; m < n; ++m)
    for (int p = 0; p < 3; ++p) t.emplace_back(m, p);
  return t;
}
Timetable gpipe(std::size_t n) {
  Timetable t;
  for (std::size_t m = 0; m < n; ++m) t.emplace_back(m, 0);
  for (std::size_t m = n; m-- > 0;) t.insert(t.end(), {{m, 1}, {m, 2}});
  return t;
}
// As the first of three ranks does it; weight gradients come last.
Timetable one_forward_one_backward(std::size_t n) {
  Timetable t;
  for (std::size_t m = 0; m < n + 2; ++m) {
    if (m < n) t.emplace_back(m, 0);
    if (m >= 2) t.emplace_back(m - 2, 1);
    if (m >= 3) t.emplace_back(m - 3, 2);
  }
  t.emplace_back(n - 1, 2);
  return t;
}

Task<Status> run_phase(Execution& e, int phase) { return e.run({.phase = phase}); }

// Every micro-batch in an Execution of its own, all over one scratch memory, which is filled with NaNs
// between the phases. Twice, so that the second time finds what the first one left.
Task<void> run_timetable(Runtime& rt, const Graph& g, std::shared_ptr<const CompiledGraph> compiled,
                         Timetable timetable, std::size_t n, std::vector<Outputs>& out) {
  Variables v = variables_of(g, segment_feeds(g, 0));
  const Buffer scratch = *cpu_device().allocate(static_cast<std::size_t>(compiled->scratch_bytes()));
  std::vector<std::unique_ptr<Execution>> all;
  for (std::size_t m = 0; m < n; ++m)
    all.push_back(*make_execution(rt, compiled, {.variables = &v, .scratch = scratch}));
  for (int repeat = 0; repeat < 2; ++repeat)
    for (const auto& [m, phase] : timetable) {
      const Feeds feeds = segment_feeds(g, m);
      // What the phase reads anew comes just before it.
      const char* const input = phase == 0 ? "x" : "dy";
      const Status fed = phase < 2 ? all[m]->feed(input, feeds.at(input)) : Status();
      EXPECT_TRUE(fed.ok()) << fed.to_string();
      poison(scratch);
      const Status s = co_await run_phase(*all[m], phase);
      EXPECT_TRUE(s.ok()) << s.to_string();
    }
  poison(scratch);
  for (const auto& e : all) out.push_back(fetch_all(*e, g));
}

TEST(Phases, InAnyTimetableGiveTheBitsOfWholeRuns) {
  constexpr std::size_t kMicroBatches = 5;
  const Graph g = segment();
  std::vector<Outputs> plain;
  for (std::size_t m = 0; m < kMicroBatches; ++m) plain.push_back(plain_outputs(g, segment_feeds(g, m)));
  EXPECT_NE(plain[0], plain[1]);
  const auto compiled = *compile(g, phased(segment_phases()));
  for (const Timetable& t :
       {one_after_the_other(kMicroBatches), gpipe(kMicroBatches), one_forward_one_backward(kMicroBatches)}) {
    EXPECT_EQ(t.size(), 3 * kMicroBatches);
    std::vector<Outputs> got;
    on_virtual([&](Runtime& rt) { return run_timetable(rt, g, compiled, t, kMicroBatches, got); });
    EXPECT_EQ(got, plain);
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      got.clear();
      on_shuffled([&](Runtime& rt) { return run_timetable(rt, g, compiled, t, kMicroBatches, got); }, seed);
      EXPECT_EQ(got, plain) << "seed " << seed;
    }
    got.clear();
    on_real([&](Runtime& rt) { return run_timetable(rt, g, compiled, t, kMicroBatches, got); });
    EXPECT_EQ(got, plain);
  }
}

}  // namespace
}  // namespace trireme::exec
