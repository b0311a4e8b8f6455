// Graphs that are run in phases, several Executions taking turns over one scratch memory: the same bits as
// whole runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/exec/counting_device.h"
#include "tests/exec/fixtures.h"
#include "tests/exec/segment.h"
#include "tests/graph/random_graph.h"
#include "trireme/graph/storage.h"

namespace trireme::exec {
namespace {

using graph::bits;
using graph::copy_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

CompileOptions phased(std::vector<std::vector<std::string>> phases) {
  return {.kernels = reference_kernels(), .phases = std::move(phases)};
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

// A random graph with its outputs in random phases.
struct RandomPhases {
  explicit RandomPhases(std::uint64_t seed)
      : rng(seed, 41),
        made(graph::random_graph(seed, 30, seed % 3 != 0,
                                 seed % 2 == 0 ? graph::Flavour::kPlain : graph::Flavour::kRich)) {
    const std::uint32_t num_phases = 1 + rng.next_below(4);
    options = phased(std::vector<std::vector<std::string>>(num_phases));
    for (const auto& [name, v] : made.graph.outputs()) {
      const std::uint32_t p = rng.next_below(num_phases);
      options.phases[p].push_back(name);
      phase_of[name] = static_cast<int>(p);
      if (rng.next_below(2) == 0) options.bound.push_back(name);
      options.notices.push_back({name, ""});
    }
  }
  bool may_break_off() const {
    for (std::int32_t i = 0; i < made.graph.size(); ++i)
      if (made.graph.node(i).def->has(op::kMutates)) return false;
    return true;
  }
  Philox rng;
  graph::RandomGraph made;
  CompileOptions options;
  std::map<std::string, int> phase_of;
};

// One of several Executions of such a graph, with feeds and variables of its own.
class MicroBatch {
 public:
  MicroBatch(Runtime& rt, const RandomPhases& random, std::shared_ptr<const CompiledGraph> compiled,
             const Buffer& scratch, int number)
      : random_(random), compiled_(std::move(compiled)), host_(rt), feeds_(copy_of(random.made.feeds)) {
    for (auto& [name, t] : feeds_)
      if (t.type().dtype == kF32)
        for (float& f : t.values<float>()) f *= 1.0F + 0.125F * static_cast<float>(number);
    interpreted_ = copy_of(feeds_);
    variables_ = variables_of(compiled_->graph(), feeds_);
    ExecutionOptions how{.variables = &variables_, .host_ops = {{"allreduce", &host_}}, .scratch = scratch};
    std::size_t offset = 4;
    for (const std::string& name : random.options.bound) {
      const TensorType type = random.made.graph.type(*random.made.graph.find_output(name));
      how.bindings.emplace(name, Tensor(bucket_, type, offset));
      offset += type.num_bytes();
    }
    e_ = *make_execution(rt, compiled_, std::move(how));
    e_->on_notice([this](int n, const std::shared_ptr<Event>&) {
      ++heard_[random_.options.notices[static_cast<std::size_t>(n)].output];
    });
    next_ = compiled_->num_phases();  // a whole run is over
  }

  // The next phase, or the first of the next whole run.
  Task<void> step() {
    if (next_ == compiled_->num_phases()) begin();
    feed(next_);
    const Status s = co_await run_phase(*e_, next_);
    EXPECT_TRUE(s.ok()) << s.to_string();
    spoil_inputs(next_);
    check(next_);
    ++next_;
  }
  // All phases from the first on.
  Task<void> run_all() {
    begin();
    for (int p = 0; p < compiled_->num_phases(); ++p) feed(p);
    const Status s = co_await e_->run();
    EXPECT_TRUE(s.ok()) << s.to_string();
    next_ = compiled_->num_phases();
    check(next_ - 1);
  }
  void check_rest() const {
    for (const auto& [name, phase] : random_.phase_of)
      EXPECT_EQ(e_->fetch(name).ok(), phase < next_) << "output " << name;
  }

 private:
  void begin() {
    next_ = 0;
    heard_.clear();
    const Graph& g = compiled_->graph();
    const auto values = graph::interpret(g, interpreted_);
    for (const auto& [name, v] : g.outputs())
      expected_[name] = bits(values[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]);
  }
  // What no phase before has read.
  void feed(int phase) {
    for (const std::string& name : compiled_->inputs_of_phase(phase)) {
      bool is_new = true;
      for (int p = 0; p < phase; ++p) is_new = is_new && !reads(p, name);
      if (!is_new) continue;
      fed_[name] = copy_of(feeds_.at(name));
      EXPECT_TRUE(e_->feed(name, fed_[name]).ok());
    }
  }
  bool reads(int phase, const std::string& input) const {
    const std::vector<std::string> names = compiled_->inputs_of_phase(phase);
    return std::find(names.begin(), names.end(), input) != names.end();
  }
  // The memory of inputs that no later phase reads is somebody else's now.
  void spoil_inputs(int phase) {
    const Graph& g = compiled_->graph();
    const graph::ValueMap<Value> roots = graph::storage_roots(g);
    for (auto& [name, t] : fed_) {
      bool is_free = true;
      for (int p = phase + 1; p < compiled_->num_phases(); ++p) is_free = is_free && !reads(p, name);
      for (const auto& [output, v] : g.outputs()) is_free = is_free && roots[v] != *g.find_input(name);
      if (is_free) std::fill_n(t.raw(), t.type().num_bytes(), std::byte{0xFF});
    }
  }
  // All outputs of the phases so far: they stay.
  void check(int phase) const {
    for (const auto& [name, p] : random_.phase_of) {
      if (p > phase) continue;
      EXPECT_EQ(bits(*e_->fetch(name)), expected_.at(name)) << "output " << name << " after phase " << phase;
      EXPECT_EQ(heard_.contains(name) ? heard_.at(name) : 0, 1) << "notices of " << name;
    }
  }

  const RandomPhases& random_;
  std::shared_ptr<const CompiledGraph> compiled_;
  DoublingHost host_;
  Feeds feeds_, interpreted_, fed_;
  Variables variables_;
  Buffer bucket_ = *cpu_device().allocate(1U << 16);
  std::unique_ptr<Execution> e_;
  std::map<std::string, int> heard_;
  Outputs expected_;
  int next_;
};

Task<void> run_in_random_order(Runtime& rt, RandomPhases& random,
                               std::shared_ptr<const CompiledGraph> compiled) {
  const Buffer scratch = *cpu_device().allocate(static_cast<std::size_t>(compiled->scratch_bytes()));
  std::vector<std::unique_ptr<MicroBatch>> all;
  for (int m = 0; m < 3; ++m) all.push_back(std::make_unique<MicroBatch>(rt, random, compiled, scratch, m));
  for (int i = 0; i < 25; ++i) {
    MicroBatch& m = *all[random.rng.next_below(3)];
    const bool whole = random.rng.next_below(8) == 0;  // breaks off what was begun, where nothing is mutated
    poison(scratch);
    if (whole && random.may_break_off())
      co_await m.run_all();
    else
      co_await m.step();
    m.check_rest();
  }
}

TEST(Phases, OfRandomGraphsInRandomOrdersGiveTheInterpretersBits) {
  std::size_t kept = 0, scratch = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomPhases random(seed);
    const auto compiled = compile(random.made.graph, random.options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
    ASSERT_TRUE(graph::verify((*compiled)->graph()).ok());
    kept += static_cast<std::size_t>((*compiled)->arena_bytes());
    scratch += static_cast<std::size_t>((*compiled)->scratch_bytes());
    on_shuffled([&](Runtime& rt) { return run_in_random_order(rt, random, *compiled); }, seed);
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  EXPECT_GT(kept, 10000U);
  EXPECT_GT(scratch, 10000U) << "the property must have been put to the test";
}

// Whole runs too, with the kernels of this machine, more threads and a phase without outputs.
TEST(Phases, RunOneAfterTheOtherInAWholeRun) {
  const Graph g = segment();
  const Feeds feeds = segment_feeds(g, 3);
  CompileOptions options = phased(segment_phases());
  options.phases.insert(options.phases.begin() + 1, std::vector<std::string>{});
  options.phases.emplace_back();
  const auto compiled = *compile(g, options);
  EXPECT_EQ(compiled->num_phases(), 5);
  const Outputs plain = plain_outputs(g, feeds);
  on_real([&](Runtime& rt) -> Task<void> {
    Variables v = variables_of(g, feeds);
    auto e = *make_execution(rt, compiled, {.variables = &v});
    EXPECT_TRUE(feed_all(*e, g, feeds).ok());
    for (int i = 0; i < 3; ++i) EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(fetch_all(*e, g), plain);
    for (int p = 0; p < 5; ++p) EXPECT_TRUE((co_await run_phase(*e, p)).ok()) << "phase " << p;
    EXPECT_EQ(fetch_all(*e, g), plain);
  });
  options.kernels = {};
  options.width = 2;
  const auto wide = *compile(g, options);
  on_real([&](Runtime& rt) -> Task<void> {
    Variables v = variables_of(g, feeds);
    auto whole = *make_execution(rt, *compile(g, {.width = 2}), {.variables = &v}),
         parts = *make_execution(rt, wide, {.variables = &v});
    for (Execution* e : {whole.get(), parts.get()}) {
      EXPECT_TRUE(feed_all(*e, g, feeds).ok());
      EXPECT_TRUE((co_await e->run()).ok());
    }
    EXPECT_EQ(fetch_all(*whole, g), fetch_all(*parts, g));
  });
}

// The weights of a micro-batch move to a copy between its phases, and those that later ones read change.
TEST(Phases, GoOnWithVariablesThatLieElsewhere) {
  const Graph g = segment();
  const Feeds feeds = segment_feeds(g, 3);
  Feeds later = feeds;
  for (const auto& [name, v] : g.variables()) later[name] = random_tensor(g.type(v), 11);
  const Outputs plain = plain_outputs(g, feeds), plain_later = plain_outputs(g, later);
  const auto compiled = *compile(g, phased(segment_phases()));
  on_virtual([&](Runtime& rt) -> Task<void> {
    Feeds own = feeds;
    for (const auto& [name, v] : g.variables()) own[name] = copy_of(feeds.at(name));
    Variables live = variables_of(g, own), kept = variables_of(g, feeds), newest = variables_of(g, later);
    auto e = *make_execution(rt, compiled, {.variables = &live});
    EXPECT_TRUE(feed_all(*e, g, feeds).ok());
    EXPECT_TRUE((co_await run_phase(*e, 0)).ok());
    EXPECT_TRUE(e->rebind(kept).ok());
    for (const std::string& name : live.names()) {
      const Tensor w = *live.get(name);
      std::fill_n(w.raw(), w.type().num_bytes(), std::byte{0xFF});  // NaN
    }
    for (const int p : {1, 2}) EXPECT_TRUE((co_await run_phase(*e, p)).ok());
    EXPECT_EQ(fetch_all(*e, g), plain);
    EXPECT_TRUE(e->rebind(newest).ok());
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(fetch_all(*e, g), plain_later);
    const Variables none;
    EXPECT_EQ(e->rebind(none).code(), Code::kNotFound);
  });
}

TEST(Phases, NeedMemoryForWhatTheyKeepAndOneScratch) {
  const Graph g = segment(64);
  const auto plain = *compile(g, {.kernels = reference_kernels()}),
             parts = *compile(g, phased(segment_phases()));
  EXPECT_EQ(plain->scratch_bytes(), 0);
  EXPECT_EQ(plain->num_phases(), 1);
  // Each layer's output and the gradient of its input to the tanh are kept, and all that is fetched.
  const std::int64_t layer = 64 * 16 * 4, weights = kLayers * (16 * 16 + 16) * 4;
  EXPECT_LE(parts->arena_bytes(), 2 * kLayers * layer + weights + layer + 4096);
  EXPECT_GT(parts->scratch_bytes(), 0);
  EXPECT_LE(parts->scratch_bytes(), 3 * layer);
  const auto in_that_order = *compile(parts->graph(), {.kernels = reference_kernels()});
  EXPECT_LE(parts->arena_bytes() + parts->scratch_bytes(), in_that_order->arena_bytes() * 5 / 4);
  // Weight gradients right behind what they need.
  std::vector<std::vector<std::string>> forward_backward = segment_phases();
  forward_backward[1].insert(forward_backward[1].end(), forward_backward[2].begin(),
                             forward_backward[2].end());
  forward_backward.pop_back();
  const auto two = *compile(g, phased(forward_backward));
  EXPECT_LE(two->arena_bytes() + two->scratch_bytes(), plain->arena_bytes());
  EXPECT_LE(two->arena_bytes(), kLayers * layer + weights + layer + 4096);

  const MemoryReport report = parts->memory();
  EXPECT_EQ(report.arena_bytes(), parts->arena_bytes());
  EXPECT_EQ(report.scratch_bytes, parts->scratch_bytes());
  EXPECT_EQ(report.workspace_bytes, 0);
  EXPECT_EQ(report.total_bytes(),
            parts->arena_bytes() + parts->scratch_bytes() + report.variables_bytes + report.feeds_bytes);
  EXPECT_THAT(report.to_text(), HasSubstr("scratch"));
  EXPECT_THAT(plain->memory().to_text(), Not(HasSubstr("scratch")));

  CountingDevice device;
  on_virtual([&](Runtime& rt) -> Task<void> {
    const Feeds feeds = segment_feeds(g, 0);
    Variables v = variables_of(g, feeds);
    const Buffer scratch = *device.allocate(static_cast<std::size_t>(parts->scratch_bytes()));
    std::vector<std::unique_ptr<Execution>> all;
    for (int i = 0; i < 6; ++i) {
      all.push_back(*make_execution(rt, parts, {.variables = &v, .device = &device, .scratch = scratch}));
      EXPECT_TRUE(feed_all(*all.back(), g, feeds).ok());
    }
    for (auto& e : all) EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(device.peak(), 6 * parts->arena_bytes() + parts->scratch_bytes());
    auto own = *make_execution(rt, parts, {.variables = &v, .device = &device});
    EXPECT_EQ(device.peak(), 7 * parts->arena_bytes() + 2 * parts->scratch_bytes());
  });
}

TEST(Phases, SayWhatTheyReadAndCost) {
  const Graph g = segment();
  const auto compiled = *compile(g, phased(segment_phases()));
  EXPECT_THAT(compiled->inputs_of_phase(0), ElementsAre("x"));
  EXPECT_THAT(compiled->inputs_of_phase(1), ElementsAre("dy"));
  EXPECT_THAT(compiled->inputs_of_phase(2), ElementsAre("x")) << "the first layer's weights";
  const auto weights = [](int first) {
    std::set<std::string> names;
    for (int i = first; i < kLayers; ++i) names.insert(fmt::format("w{}", i));
    return names;
  };
  std::set<std::string> all = weights(0);
  for (int i = 0; i < kLayers; ++i) all.insert(fmt::format("b{}", i));
  EXPECT_EQ(compiled->variables_of_phase(0), all);
  EXPECT_EQ(compiled->variables_of_phase(1), weights(0)) << "biases have no part in dx";
  EXPECT_THAT(compiled->variables_of_phase(2), IsEmpty()) << "gradients of weights need none";
  EXPECT_EQ((*compile(g, {}))->variables_of_phase(0), all);
  cost::OpCost sum;
  for (int p = 0; p < 3; ++p) sum += compiled->phase_cost(p);
  EXPECT_DOUBLE_EQ(sum.flops, compiled->cost().flops);
  EXPECT_GT(compiled->phase_cost(0).flops, kLayers * 2.0 * 8 * 16 * 16) << "a product in each layer";
  EXPECT_GT(compiled->phase_cost(2).flops, kLayers * 2.0 * 8 * 16 * 16);

  const Outline outline = compiled->outline();
  EXPECT_THAT(outline.phase_of, ElementsAre(0, 1, 2));
  EXPECT_EQ(outline.strands.size(), 3U);
  EXPECT_THAT((*compile(g, {}))->outline().phase_of, IsEmpty());
  EXPECT_THAT(compiled->to_text(),
              AllOf(HasSubstr("3 phases"), HasSubstr("phase 2, strand 2"), HasSubstr("@scratch+0")));
  EXPECT_THAT((*compile(g, {}))->inputs_of_phase(0), ElementsAre("x", "dy"));
}

TEST(Phases, MustHoldEveryFetchOnce) {
  const Graph g = segment();
  const auto message = [&](std::vector<std::vector<std::string>> phases) {
    CompileOptions options = phased(std::move(phases));
    options.fetches = {"y", "dx"};
    return compile(g, options).status().message();
  };
  EXPECT_EQ(message({{"y"}, {"dx"}}), "");
  EXPECT_THAT(message({{"y"}, {}}), HasSubstr("output 'dx' is fetched, but in none of the 2 phases"));
  EXPECT_THAT(message({{"y"}, {"dx", "y"}}), HasSubstr("output 'y' is in phase 0 and in phase 1"));
  EXPECT_THAT(message({{"y"}, {"dx"}, {"dw0"}}),
              AllOf(HasSubstr("phase 2 has output 'dw0', which is not fetched"), HasSubstr("y, dx")));
}

TEST(Phases, InTheWrongOrderAreRefused) {
  const Graph g = segment();
  const auto compiled = *compile(g, phased(segment_phases()));
  on_virtual([&](Runtime& rt) -> Task<void> {
    const Feeds feeds = segment_feeds(g, 0);
    Variables v = variables_of(g, feeds);
    auto e = *make_execution(rt, compiled, {.variables = &v});
    const auto refused = [&](int phase) -> Task<std::string> {
      const Status s = co_await run_phase(*e, phase);
      EXPECT_EQ(s.code(), Code::kInvalid);
      co_return s.message();
    };
    EXPECT_THAT(co_await refused(3), HasSubstr("run() of phase 3, expected 0 to 2"));
    EXPECT_THAT(co_await refused(-2), HasSubstr("run() of phase -2"));
    EXPECT_THAT(co_await refused(1), HasSubstr("phase 1 needs phase 0 before it"));
    EXPECT_THAT(co_await refused(0), HasSubstr("input 'x' was not fed"));
    EXPECT_TRUE(e->feed("x", feeds.at("x")).ok());
    EXPECT_TRUE((co_await run_phase(*e, 0)).ok()) << "dy is not read yet";
    EXPECT_TRUE(e->fetch("y").ok());
    EXPECT_THAT(e->fetch("dx").status().message(), HasSubstr("phase 1 has not run"));
    EXPECT_THAT(co_await refused(2), HasSubstr("phase 2 needs phase 1 before it"));
    EXPECT_THAT(co_await refused(1), HasSubstr("input 'dy' was not fed"));
    EXPECT_THAT(co_await refused(-1), HasSubstr("input 'dy' was not fed"));
    EXPECT_TRUE(e->feed("dy", feeds.at("dy")).ok());
    EXPECT_TRUE((co_await run_phase(*e, 1)).ok()) << "what was refused changed nothing";
    EXPECT_THAT(co_await refused(1), HasSubstr("phase 1 has run already"));
    EXPECT_TRUE((co_await run_phase(*e, 0)).ok()) << "begins anew";
    EXPECT_THAT(co_await refused(2), HasSubstr("phase 2 needs phase 1 before it"));
    EXPECT_FALSE(e->fetch("dx").ok());
    EXPECT_TRUE((co_await run_phase(*e, 1)).ok());
    EXPECT_TRUE((co_await run_phase(*e, 2)).ok());
    EXPECT_EQ(fetch_all(*e, g), plain_outputs(g, feeds));
    EXPECT_THAT(co_await refused(2), HasSubstr("phase 2 has run already"));

    auto whole = *make_execution(rt, *compile(g, {}), {.variables = &v});
    const Status s = co_await run_phase(*whole, 1);
    EXPECT_THAT(s.message(), HasSubstr("expected 0 to 0, or -1"));
  });
}

TEST(Phases, RefuseScratchMemoryThatDoesNotFit) {
  const Graph g = segment();
  const auto compiled = *compile(g, phased(segment_phases()));
  on_virtual([&](Runtime& rt) -> Task<void> {
    Variables v = variables_of(g, segment_feeds(g, 0));
    const auto bytes = static_cast<std::size_t>(compiled->scratch_bytes());
    const auto message = [&](const Buffer& scratch) {
      return make_execution(rt, compiled, {.variables = &v, .scratch = scratch}).status().message();
    };
    const Buffer memory = *cpu_device().allocate(bytes + 64);
    EXPECT_EQ(message(memory), "");
    EXPECT_THAT(message(memory.slice(0, bytes - 1)), HasSubstr(fmt::format("the graph needs {}", bytes)));
    EXPECT_THAT(message(memory.slice(4, bytes)), HasSubstr("a multiple of 64"));
    EXPECT_THAT(message(Buffer::phantom(phantom_device(), bytes)), HasSubstr("not on the device"));
    co_return;
  });
}

// A host op in each of two phases; the second one reads what the first one's got.
struct HostChain {
  explicit HostChain(const std::string& first = "", const std::string& second = "") {
    Builder b(graph);
    const Value x = b.input("x", kF32, {2});
    const Value h = host(b, b.mul(x, b.variable("a", kF32, {2})), first);
    b.output("out0", b.tanh(h));
    b.output("out1", b.tanh(host(b, b.mul(b.tanh(h), b.variable("b", kF32, {2})), second)));
    EXPECT_TRUE(b.status().ok());
    options = phased({{"out0"}, {"out1"}});
    options.notices = {{"out1", ""}, {"out0", ""}, {"out0", "b"}};
  }
  Variables variables() const {
    Variables v;
    for (const char* name : {"a", "b"}) EXPECT_TRUE(v.add(name, tensor({1, 0.5})).ok());
    return v;
  }
  Graph graph;
  CompileOptions options;
};

TEST(Phases, HaveHostOpsAndNoticesOfTheirOwn) {
  const HostChain chain("late:3", "late:2");
  const auto compiled = *compile(chain.graph, chain.options);
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    on_shuffled(
        [&](Runtime& rt) -> Task<void> {
          DoublingHost host(rt);
          Variables v = chain.variables();
          auto e = *make_execution(rt, compiled, {.variables = &v, .host_ops = {{"allreduce", &host}}});
          EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
          std::vector<int> heard;
          e->on_notice([&](int n, const std::shared_ptr<Event>&) { heard.push_back(n); });
          for (std::uint64_t number : {7U, 9U}) {
            heard.clear();
            EXPECT_TRUE((co_await e->run({.number = number, .phase = 0})).ok());
            EXPECT_THAT(heard, ElementsAre(1));
            EXPECT_TRUE((co_await e->run({.number = number + 1, .phase = 1})).ok());
            EXPECT_THAT(heard, ::testing::UnorderedElementsAre(1, 0, 2)) << "b is read in phase 1";
          }
          EXPECT_THAT(host.runs, ElementsAre(7, 8, 9, 10));
          heard.clear();
          EXPECT_TRUE((co_await e->run({.number = 11})).ok());
          EXPECT_THAT(host.runs, ElementsAre(7, 8, 9, 10, 11, 11));
          EXPECT_EQ(heard.front(), 1);
          EXPECT_EQ(heard.size(), 3U);
        },
        seed);
}

TEST(Phases, ThatFailBeginAgainFromTheFirst) {
  const HostChain chain("", "fail");
  const auto compiled = *compile(chain.graph, chain.options);
  on_virtual([&](Runtime& rt) -> Task<void> {
    DoublingHost host(rt);
    Variables v = chain.variables();
    auto e = *make_execution(rt, compiled, {.variables = &v, .host_ops = {{"allreduce", &host}}});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    EXPECT_TRUE((co_await run_phase(*e, 0)).ok());
    EXPECT_EQ((co_await run_phase(*e, 1)).code(), Code::kPeerLost);
    EXPECT_THAT(e->fetch("out0").status().message(), HasSubstr("the run failed"));
    EXPECT_THAT((co_await run_phase(*e, 1)).message(), HasSubstr("phase 1 needs phase 0 before it"));
    EXPECT_EQ((co_await e->run()).code(), Code::kPeerLost);
    host.failing = false;
    for (const int p : {0, 1}) EXPECT_TRUE((co_await run_phase(*e, p)).ok());
    EXPECT_TRUE(e->fetch("out0").ok());
  });
}

TEST(Phases, ThatAreCancelledBeginAgainFromTheFirst) {
  const HostChain chain("", "never");
  const auto compiled = *compile(chain.graph, chain.options);
  on_virtual([&](Runtime& rt) -> Task<void> {
    DoublingHost host(rt);
    Variables v = chain.variables();
    auto e = *make_execution(rt, compiled, {.variables = &v, .host_ops = {{"allreduce", &host}}});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    EXPECT_TRUE((co_await run_phase(*e, 0)).ok());
    rt.call_at(rt.now() + kMilli, [&] { e->cancel(Status(Code::kCancelled, "[test] enough")); });
    EXPECT_THAT((co_await run_phase(*e, 1)).message(), HasSubstr("enough"));
    EXPECT_FALSE(e->fetch("out0").ok());
    EXPECT_EQ((co_await run_phase(*e, 1)).code(), Code::kInvalid);

    EXPECT_TRUE((co_await run_phase(*e, 0)).ok());
    const Status late = co_await e->run({.deadline = rt.now() + kMilli, .phase = 1});
    EXPECT_EQ(late.code(), Code::kDeadline);
    EXPECT_EQ(host.reasons.size(), 2U);
    EXPECT_THAT((co_await run_phase(*e, 1)).message(), HasSubstr("phase 1 needs phase 0 before it"));
    EXPECT_TRUE((co_await run_phase(*e, 0)).ok());
  });
}

TEST(Phases, ThatAreAbandonedBeginAgainFromTheFirst) {
  const HostChain chain("", "never");
  const auto compiled = *compile(chain.graph, chain.options);
  const Body body = [&](Runtime& rt) -> Task<void> {
    DoublingHost host(rt);
    Variables v = chain.variables();
    auto e = *make_execution(rt, compiled, {.variables = &v, .host_ops = {{"allreduce", &host}}});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    EXPECT_TRUE((co_await run_phase(*e, 0)).ok());
    {
      Task<Status> abandoned = run_phase(*e, 1);
      abandoned.start();
      while (host.started.size() < 2) co_await turns(rt, 1);
    }
    while (host.reasons.empty()) co_await turns(rt, 1);
    co_await turns(rt, 50);
    EXPECT_THAT((co_await run_phase(*e, 1)).message(), HasSubstr("phase 1 needs phase 0 before it"));
    EXPECT_TRUE((co_await run_phase(*e, 0)).ok());
  };
  on_real(body);
  for (std::uint64_t seed = 0; seed < 20; ++seed) on_shuffled(body, seed);
}

TEST(Phases, WaitForTheirOwnGatesOnly) {
  HostChain chain;
  chain.options.gates = {{{"a"}}, {{"b"}}, {{"a", "b"}}};
  chain.options.notices = {{"out0", ""}, {"out1", ""}};
  const auto compiled = *compile(chain.graph, chain.options);
  EXPECT_TRUE(compiled->is_behind(0, 0));
  EXPECT_FALSE(compiled->is_behind(0, 1));
  EXPECT_TRUE(compiled->is_behind(0, 2));
  for (int gate = 0; gate < 3; ++gate) EXPECT_TRUE(compiled->is_behind(1, gate)) << "gate " << gate;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    on_shuffled(
        [&](Runtime& rt) -> Task<void> {
          DoublingHost host(rt);
          Variables v = chain.variables();
          auto e = *make_execution(rt, compiled, {.variables = &v, .host_ops = {{"allreduce", &host}}});
          EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
          int held = 0;
          std::vector<int> opens;
          e->on_held([&] {
            ++held;
            if (opens.empty()) return;
            e->open(opens.back());
            opens.pop_back();
          });
          e->open(0);
          e->open(1);
          e->open(2);
          EXPECT_TRUE((co_await run_phase(*e, 0)).ok()) << "gates 0 and 2 are closed now, gate 1 is open";
          EXPECT_EQ(held, 0);
          opens = {2};
          EXPECT_TRUE((co_await run_phase(*e, 1)).ok());
          EXPECT_GE(held, 1);
          EXPECT_TRUE(opens.empty());
          opens = {1, 2, 0};  // from the back; gate 2 holds both phases of a whole run
          EXPECT_TRUE((co_await e->run()).ok());
          EXPECT_TRUE(opens.empty());
          opens = {2, 0};
          EXPECT_TRUE((co_await run_phase(*e, 0)).ok());
          EXPECT_TRUE(opens.empty());
          opens = {1, 2};
          EXPECT_TRUE((co_await run_phase(*e, 1)).ok());
          EXPECT_TRUE(opens.empty());
        },
        seed);
}

TEST(Phases, ThatFailCloseTheGatesOfLaterOnes) {
  HostChain chain("fail");
  chain.options.gates = {{{"b"}}};
  chain.options.notices = {};
  const auto compiled = *compile(chain.graph, chain.options);
  on_virtual([&](Runtime& rt) -> Task<void> {
    DoublingHost host(rt);
    Variables v = chain.variables();
    auto e = *make_execution(rt, compiled, {.variables = &v, .host_ops = {{"allreduce", &host}}});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    e->open(0);
    EXPECT_FALSE((co_await run_phase(*e, 0)).ok());
    host.failing = false;
    EXPECT_TRUE((co_await run_phase(*e, 0)).ok());
    rt.call_at(rt.now() + kMilli, [&] { e->open(0); });
    EXPECT_TRUE((co_await run_phase(*e, 1)).ok());
    EXPECT_GT(e->held_ns(), kMilli / 2) << "the gate was closed";
    EXPECT_TRUE((co_await run_phase(*e, 0)).ok());
    EXPECT_EQ(e->held_ns(), 0);
  });
}

// A mutation in an early phase comes after all readers of what was there before.
TEST(Phases, ReadAVariableBeforeAnEarlierPhaseChangesIt) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2}), w = b.variable("w", kF32, {2});
  const Value before = b.tanh(b.mul(x, w));
  const Value changed = b.add_node(op::kAssignAdd, {w, x});
  b.output("before", before);
  b.output("changed", changed);
  ASSERT_TRUE(b.status().ok());
  const auto compiled = *compile(g, phased({{"changed"}, {"before"}}));
  EXPECT_THAT(compiled->inputs_of_phase(1), IsEmpty());
  on_virtual([&](Runtime& rt) -> Task<void> {
    Variables v;
    EXPECT_TRUE(v.add("w", tensor({0, 1})).ok());
    auto e = *make_execution(rt, compiled, {.variables = &v});
    EXPECT_TRUE(e->feed("x", tensor({0, 0})).ok());
    EXPECT_TRUE(e->feed("x", tensor({1, 3})).ok());
    EXPECT_TRUE((co_await run_phase(*e, 0)).ok());
    EXPECT_EQ(bits(*v.get("w")), bits(tensor({1, 4})));
    EXPECT_TRUE((co_await run_phase(*e, 1)).ok());
    EXPECT_EQ(e->fetch("before")->data<float>()[0], 0.0F);
    EXPECT_EQ(e->fetch("before")->data<float>()[1], std::tanh(3.0F));
  });
}

TEST(Phases, AreTimedNodeByNodeAndCountAsOneRun) {
  const Graph g = segment();
  const auto compiled = *compile(g, phased(segment_phases()));
  on_real([&](Runtime& rt) -> Task<void> {
    const Feeds feeds = segment_feeds(g, 0);
    Variables v = variables_of(g, feeds);
    auto e = *make_execution(rt, compiled, {.variables = &v, .profile = true});
    EXPECT_TRUE(feed_all(*e, g, feeds).ok());
    for (int i = 0; i < 4; ++i)
      for (int p = 0; p < 3; ++p) EXPECT_TRUE((co_await run_phase(*e, p)).ok());
    const Profile profile = *e->profile();
    EXPECT_EQ(profile.runs, 4);
    EXPECT_GE(profile.run_ns, profile.node_ns());
    for (const NodeProfile& n : profile.nodes) EXPECT_EQ(n.calls, 4) << n.name;
  });
}

TEST(Phases, OfAPhantomRunTakeTheTimeOfTheirCost) {
  const Graph g = segment(1 << 20);
  const auto compiled = *compile(g, phased(segment_phases()));
  std::vector<TimeNs> took;
  on_virtual(
      [&](Runtime& rt) -> Task<void> {
        Variables v;
        for (const auto& [name, value] : g.variables())
          EXPECT_TRUE(v.add(name, Tensor(Buffer::phantom(phantom_device(), 1024), g.type(value))).ok());
        const Buffer scratch =
            Buffer::phantom(phantom_device(), static_cast<std::size_t>(compiled->scratch_bytes()));
        auto e = *make_execution(rt, compiled, {.variables = &v, .scratch = scratch});
        for (const char* name : {"x", "dy"}) {
          const TensorType type = g.type(*g.find_input(name));
          EXPECT_TRUE(e->feed(name, Tensor(Buffer::phantom(phantom_device(), type.num_bytes()), type)).ok());
        }
        for (int p = 0; p < 3; ++p) {
          const TimeNs begin = rt.now();
          EXPECT_TRUE((co_await run_phase(*e, p)).ok());
          took.push_back(rt.now() - begin);
        }
        EXPECT_TRUE(e->fetch("dw0")->is_phantom());
      },
      true);
  ASSERT_EQ(took.size(), 3U);
  for (int p = 0; p < 3; ++p)
    EXPECT_EQ(took[static_cast<std::size_t>(p)],
              cost::compute_time(compiled->phase_cost(p), cost::MachineModel{}, 1));
}

}  // namespace
}  // namespace trireme::exec
