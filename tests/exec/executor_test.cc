// The executor against a naive interpreter: on every Runtime, in every order, the same bits.
#include "trireme/exec/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/exec/fixtures.h"
#include "tests/graph/random_graph.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/forms.h"
#include "trireme/runtime/sync.h"

namespace trireme::exec {
namespace {

using graph::bits;
using graph::copy_of;
using ::testing::HasSubstr;
using Outputs = std::map<std::string, std::vector<std::byte>>;

// Outputs and variables after `runs` runs of the interpreter.
Outputs expected(const Graph& g, const Feeds& feeds, int runs) {
  Feeds own = copy_of(feeds);
  const Graph live = *graph::eliminate_dead_code(g, {});  // changes that no output needs do not happen
  std::vector<std::vector<Tensor>> values;
  for (int i = 0; i < runs; ++i) values = graph::interpret(live, own);
  Outputs out;
  for (const auto& [name, v] : live.outputs())
    out[name] = bits(values[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]);
  for (const auto& [name, v] : g.variables()) out["variable " + name] = bits(own.at(name));
  return out;
}

std::vector<std::string> differing(const Outputs& a, const Outputs& b) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : a)
    if (!b.contains(name) || b.at(name) != bytes) names.push_back(name);
  if (a.size() != b.size()) names.push_back("number of outputs");
  return names;
}

// Makes an Execution with some outputs bound into one bucket and runs it.
Task<void> run_graph(Runtime& rt, const Graph& g, const Feeds& feeds, CompileOptions options, int runs,
                     Outputs& out) {
  Feeds own = copy_of(feeds);
  Result<std::shared_ptr<const CompiledGraph>> compiled = compile(g, options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().to_string();
  if (!compiled.ok()) co_return;
  Variables variables = variables_of((*compiled)->graph(), own);
  DoublingHost doubling(rt);
  ExecutionOptions how{.variables = &variables, .bindings = {}, .host_ops = {{"allreduce", &doubling}}};
  const Buffer bucket = *cpu_device().allocate(1U << 16);
  std::size_t offset = 4;
  for (const std::string& name : options.bound) {
    const TensorType type = g.type(*g.find_output(name));
    how.bindings.emplace(name, Tensor(bucket, type, offset));
    offset += type.num_bytes();
  }
  Result<std::unique_ptr<Execution>> made = make_execution(rt, *compiled, std::move(how));
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  if (!made.ok()) co_return;
  std::unique_ptr<Execution> e = std::move(*made);
  EXPECT_TRUE(feed_all(*e, (*compiled)->graph(), own).ok());
  for (int i = 0; i < runs; ++i) {
    const Status s = co_await e->run();
    EXPECT_TRUE(s.ok()) << s.to_string();
  }
  for (const auto& [name, v] : g.outputs()) out[name] = bits(*e->fetch(name));
  for (const auto& [name, v] : g.variables()) out["variable " + name] = bits(own.at(name));
}

TEST(Executor, GivesTheInterpretersBitsInEveryOrderOfStrandsAndHostOps) {
  std::size_t strands = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const graph::RandomGraph r = graph::random_graph(seed, 30, seed % 3 != 0);
    CompileOptions options{.kernels = reference_kernels()};
    for (const auto& [name, v] : r.graph.outputs()) {
      if ((seed + options.notices.size()) % 2 == 0) options.bound.push_back(name);
      options.notices.push_back({name, ""});
    }
    strands += static_cast<std::size_t>((*compile(r.graph, options))->num_strands());
    Outputs got;
    on_shuffled([&](Runtime& rt) { return run_graph(rt, r.graph, r.feeds, options, 2, got); }, seed);
    ASSERT_THAT(differing(got, expected(r.graph, r.feeds, 2)), ::testing::IsEmpty());
  }
  EXPECT_GT(strands, 120 * 4U) << "the graphs must fall into several strands";
}

TEST(Executor, GivesTheSameBitsOnTheRealAndTheVirtualRuntime) {
  for (std::uint64_t seed = 1000; seed < 1010; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const graph::RandomGraph r = graph::random_graph(seed, 40, true);
    for (const int width : {1, 2}) {
      Outputs real, simulated, naive = expected(r.graph, r.feeds, 3);
      CompileOptions options{.width = width};
      on_real([&](Runtime& rt) { return run_graph(rt, r.graph, r.feeds, options, 3, real); });
      on_virtual([&](Runtime& rt) { return run_graph(rt, r.graph, r.feeds, options, 3, simulated); });
      EXPECT_THAT(differing(real, simulated), ::testing::IsEmpty());
      options.kernels = reference_kernels();
      on_real([&](Runtime& rt) { return run_graph(rt, r.graph, r.feeds, options, 3, real); });
      EXPECT_THAT(differing(real, naive), ::testing::IsEmpty());
    }
  }
}

Graph affine() {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2}), w = b.variable("w", kF32, {2}), lr = b.fill(0.5, kF32, {});
  const Value y = b.mul(x, w);
  b.output("y", y);
  b.output("updated", b.add_node(op::kApplySgd, {w, b.tanh(y), lr}));
  return g;
}

TEST(Executor, RunsOnlyWhatTheFetchesNeed) {
  auto compiled = *compile(affine(), {.fetches = {"y"}});
  EXPECT_EQ(compiled->graph().size(), 3);
  EXPECT_THAT(compiled->to_text(), HasSubstr("mul"));
  on_virtual([&](Runtime& rt) -> Task<void> {
    Variables v;
    EXPECT_TRUE(v.add("w", tensor({3, 4})).ok());
    auto e = *make_execution(rt, compiled, {.variables = &v});
    EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(bits(*e->fetch("y")), bits(tensor({3, 8})));
    EXPECT_EQ(bits(*v.get("w")), bits(tensor({3, 4}))) << "the update was not fetched";
    EXPECT_EQ(e->fetch("updated").status().code(), Code::kNotFound);
  });
}

TEST(Executor, SeveralExecutionsOfOneCompiledGraphRunAtOnce) {
  Graph g;
  Builder b(g);
  Value y = b.input("x", kF32, {64, 64});
  for (int i = 0; i < 6; ++i) y = b.tanh(b.matmul(y, y));
  b.output("y", y);
  auto compiled = *compile(g, {.kernels = reference_kernels()});
  on_real([&](Runtime& rt) -> Task<void> {
    std::vector<std::unique_ptr<Execution>> all;
    std::vector<Tensor> x;
    for (int i = 0; i < 4; ++i) {
      all.push_back(*make_execution(rt, compiled, {}));
      x.push_back(*Tensor::allocate(cpu_device(), {kF32, {64, 64}}));
      for (std::size_t k = 0; k < 4096; ++k)
        x.back().values<float>()[k] = static_cast<float>(k % 7 + i) * 0.01F;
      EXPECT_TRUE(all.back()->feed("x", x.back()).ok());
    }
    std::vector<Task<Status>> tasks;
    for (auto& e : all) tasks.push_back(e->run());
    EXPECT_TRUE((co_await runtime::when_all(rt, std::move(tasks))).ok());
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_EQ(bits(*all[i]->fetch("y")), bits(graph::interpret_output(g, {{"x", x[i]}}, "y")));
  });
}

TEST(Executor, FeedsAreByReferenceAndMayChangeBetweenRuns) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2, 2}), flat = b.reshape(x, {4});
  b.output("y", b.add(flat, flat));
  b.output("view", flat);
  on_virtual([&](Runtime& rt) -> Task<void> {
    auto e = *make_execution(rt, *compile(g, {}), {});
    for (const float first : {1.0F, 5.0F}) {
      EXPECT_TRUE(e->feed("x", *tensor({first, 2, 3, 4}).reshape({2, 2})).ok());
      EXPECT_TRUE((co_await e->run()).ok());
      EXPECT_EQ(bits(*e->fetch("y")), bits(tensor({2 * first, 4, 6, 8})));
      EXPECT_EQ(bits(*e->fetch("view")), bits(tensor({first, 2, 3, 4})));
    }
  });
}

TEST(Executor, WrongFeedsAreRefusedWithWhatWasExpected) {
  auto compiled = *compile(affine(), {});
  on_virtual([&](Runtime& rt) -> Task<void> {
    Variables v;
    EXPECT_TRUE(v.add("w", tensor({3, 4})).ok());
    auto e = *make_execution(rt, compiled, {.variables = &v});
    EXPECT_THAT((co_await e->run()).message(), HasSubstr("input 'x' was not fed"));
    EXPECT_THAT(e->fetch("y").status().message(), HasSubstr("not run"));
    const Status type = e->feed("x", tensor({1, 2, 3}));
    EXPECT_THAT(type.message(), HasSubstr("got f32[3], expected f32[2]"));
    EXPECT_THAT(e->feed("images", tensor({1, 2})).message(), HasSubstr("it has: x"));
    EXPECT_THAT(e->feed("x", Tensor(Buffer::phantom(phantom_device(), 8), {kF32, {2}})).message(),
                HasSubstr("phantom"));
    EXPECT_THAT(
        e->feed(
             "x",
             tensor({1, 2, 3, 4}).reshape({2, 2})->slice(1, 0, 1).transpose(std::vector{1, 0}).slice(0, 0, 1))
            .message(),
        HasSubstr("wrong type"));
  });
}

TEST(Executor, NamesThatDoNotExistAreRefusedWithThoseThatDo) {
  const Graph g = affine();
  EXPECT_THAT(compile(g, {.fetches = {"z"}}).status().message(), HasSubstr("y, updated"));
  EXPECT_THAT(compile(g, {.fetches = {"y"}, .bound = {"updated"}}).status().message(),
              HasSubstr("fetched are: y"));
  EXPECT_THAT(compile(g, {.notices = {{"z", ""}}}).status().message(), HasSubstr("y, updated"));
  EXPECT_THAT(compile(g, {.notices = {{"y", "v"}}}).status().message(), HasSubstr("it has: w"));
  auto compiled = *compile(g, {.bound = {"y"}});
  on_virtual([&](Runtime& rt) -> Task<void> {
    Variables v;
    EXPECT_THAT(make_execution(rt, compiled, {.variables = &v}).status().message(),
                HasSubstr("no variable 'w'"));
    EXPECT_TRUE(v.add("w", tensor({3, 4})).ok());
    EXPECT_EQ(v.add("w", tensor({3, 4})).code(), Code::kExists);
    EXPECT_THAT(make_execution(rt, compiled, {.variables = &v}).status().message(),
                HasSubstr("bound output 'y'"));
    EXPECT_THAT(make_execution(rt, compiled, {.variables = &v, .bindings = {{"q", tensor({1, 2})}}})
                    .status()
                    .message(),
                HasSubstr("bound are: y"));
    co_return;
  });
}

TEST(Executor, KernelsOfAPlanAreUsedAndMustBeComplete) {
  const Graph g = affine();
  auto compiled = *compile(g, {.kernels = reference_kernels()});
  const std::map<std::string, std::string> chosen = compiled->kernels();
  EXPECT_EQ(
      chosen,
      (std::map<std::string, std::string>{
          {"apply_sgd", "reference"}, {"fill", "reference"}, {"mul", "reference"}, {"tanh", "reference"}}));
  EXPECT_TRUE(compile(g, {.kernels = chosen, .strict_kernels = true}).ok());
  EXPECT_THAT(compile(g, {.kernels = {{"mul", "reference"}}, .strict_kernels = true}).status().message(),
              HasSubstr("names no kernel"));
  EXPECT_EQ(compile(g, {.kernels = {{"mul", "abacus"}}}).status().code(), Code::kNotFound);
}

Graph pool_with_channels_last() {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", DType::kF32, {2, 6, 6, 3});
  const std::int64_t two = 2;
  b.output("y", *g.add(op::kMaxPool2d, {x},
                       {{"window_h", two}, {"window_w", two}, {"stride_h", two}, {"stride_w", two}}, "pool",
                       "", *op::parse_forms("nhwc>nhwc")));
  return g;
}

// Other forms of operands are done by other rows, and nodes of two graphs may have one name.
TEST(Executor, PlansNameAnOpWithTheFormsOfItsOperands) {
  const Graph g = pool_with_channels_last();
  const auto chosen = (*compile(g, {}))->kernels();
  ASSERT_EQ(chosen.size(), 1U);
  EXPECT_EQ(chosen.count("max_pool2d[nhwc>nhwc]"), 1U);
  EXPECT_TRUE(compile(g, {.kernels = chosen, .strict_kernels = true}).ok());
  const auto kernel_by = [&](std::map<std::string, std::string> kernels) {
    const auto made = compile(g, {.kernels = std::move(kernels), .strict_kernels = true});
    return made.ok() ? (*made)->kernels().at("max_pool2d[nhwc>nhwc]") : made.status().message();
  };
  EXPECT_EQ(kernel_by({{"max_pool2d[nhwc>nhwc]", "staged"}}), "staged");
  EXPECT_EQ(kernel_by({{"max_pool2d[nhwc>nhwc]", "windows"}, {"max_pool2d[nhwc>nhwc]:pool", "reference"}}),
            "reference");
  // A row for plain operands is none for these.
  EXPECT_THAT(kernel_by({{"max_pool2d", "vector"}}), HasSubstr("names no kernel"));
  EXPECT_THAT(kernel_by({{"max_pool2d[nhwc>nhwc]", "vector"}}), HasSubstr("expected one of windows"));
}

// As plans were written before nodes had forms.
TEST(Executor, PlansMayNameAFormedOpAsAdapted) {
  const Graph g = pool_with_channels_last();
  const auto kernel_by = [&](std::map<std::string, std::string> kernels) {
    const auto made = compile(g, {.kernels = std::move(kernels), .strict_kernels = true});
    return made.ok() ? (*made)->kernels().at("max_pool2d[nhwc>nhwc]") : made.status().message();
  };
  for (const char* name : {"adapted max_pool2d", "adapted", "adapted max_pool2d:pool", "adapted:pool"})
    EXPECT_EQ(kernel_by({{name, "staged"}}), "staged") << name;
  EXPECT_EQ(kernel_by({{"adapted max_pool2d", "windows"}, {"adapted max_pool2d:pool", "staged"}}), "staged");
  EXPECT_EQ(kernel_by({{"adapted", "windows"}, {"adapted max_pool2d", "staged"}}), "staged");
  EXPECT_THAT(kernel_by({{"adapted conv2d", "staged"}}), HasSubstr("names no kernel"));
}

TEST(Executor, APhantomRunAdvancesTimeByTheModelledCostAndHoldsNoMemory) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {1 << 20, 1 << 20}), w = b.variable("w", kF32, {1 << 20, 1 << 20});
  b.output("y", b.relu(b.matmul(x, w)));
  auto compiled = *compile(g, {.width = 2, .kernels = reference_kernels()});
  EXPECT_EQ(compiled->num_strands(), 1);
  const TimeNs end = on_virtual(
      [&](Runtime& rt) -> Task<void> {
        const Tensor huge(Buffer::phantom(phantom_device(), std::size_t{4} << 40),
                          {kF32, {1 << 20, 1 << 20}});
        Variables v;
        EXPECT_TRUE(v.add("w", huge).ok());
        auto e = *make_execution(rt, compiled, {.variables = &v});
        EXPECT_TRUE(e->feed("x", huge).ok());
        EXPECT_TRUE((co_await e->run()).ok());
        EXPECT_TRUE(e->fetch("y")->is_phantom());
      },
      true);
  EXPECT_EQ(end, cost::compute_time(compiled->cost(), cost::MachineModel{}, 2));
}

TEST(Executor, MayGoWhileARunIsUnderWay) {
  on_shuffled(
      [](Runtime& rt) -> Task<void> {
        Variables v;
        EXPECT_TRUE(v.add("w", tensor({3, 4})).ok());
        auto e = *make_execution(rt, *compile(affine(), {}), {.variables = &v});
        EXPECT_TRUE(e->feed("x", tensor({1, 2})).ok());
        {
          Task<Status> abandoned = e->run();
          abandoned.start();
        }
        EXPECT_FALSE((co_await e->run()).ok()) << "the abandoned run is still under way";
        e.reset();
        co_await turns(rt, 50);
      },
      1);
}

}  // namespace
}  // namespace trireme::exec
