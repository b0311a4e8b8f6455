// The pipeline of every kind of target, in the order that ships, on random graphs and random nets: what comes
// out computes what the graph computed before. No device is needed: reference kernels run everything.
#include "trireme/graph/pass/pipeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/graph/random_graph.h"
#include "tests/graph/random_net.h"
#include "tests/graph/same_outputs.h"

namespace trireme::graph {
namespace {

constexpr std::uint64_t kSeeds = 24;

struct Case {
  const char* name;
  PipelineTarget target;
  double tolerance;  // of gradients; a tenth of it counts for the loss

  DType low() const {
    return !target.is_low() ? DType::kF32 : target.precision == Precision::kF16 ? DType::kF16 : DType::kBF16;
  }
};

PassOptions options_with(bool adapts, bool turns) {
  PassOptions options;
  if (adapts)
    options.adaptable = {"batch_norm",      "batch_norm_grad",
                         "batch_norm_relu", "batch_norm_relu_grad",
                         "layer_norm",      "batch_norm_add_relu_grad",
                         "layer_norm_grad", "layer_norm_grad_sum",
                         "bias_grad",       "residual_layer_norm",
                         "max_pool2d",      "max_pool2d_grad",
                         "relu_grad",       "softmax_cross_entropy_step",
                         "transpose",       "mean"};
  if (turns)
    options.turnable = {"conv2d",          "conv2d_input_grad", "conv2d_filter_grad",
                        "max_pool2d",      "avg_pool2d",        "max_pool2d_places",
                        "max_pool2d_grad", "avg_pool2d_grad",   "max_pool2d_places_grad",
                        "conv2d_bias_act"};
  return options;
}

const std::vector<Case>& cases() {
  constexpr double kFull = 1e-5;              // sums in another order
  constexpr double kBf16 = 0.3, kF16 = 0.15;  // some gradients are small sums of large values
  const PassOptions none, turns = options_with(false, true), all = options_with(true, true);
  static const std::vector<Case> kCases{
      {"cpu_f32", {.precision = Precision::kF32, .options = turns}, kFull},
      {"cpu_f32_of_planes", {.precision = Precision::kF32, .fuses_norms = false, .options = none}, kFull},
      {"cpu_bf16", {.precision = Precision::kBf16, .lowers_gates = true, .options = all}, kBf16},
      {"cpu_bf16_without_units", {.precision = Precision::kBf16, .fuses_norms = false}, kFull},
      {"cpu_f16", {.precision = Precision::kF16, .fuses_norms = false}, kFull},
      {"gpu_f32", {.on_gpu = true, .precision = Precision::kF32, .options = all}, kFull},
      {"gpu_tf32", {.on_gpu = true, .precision = Precision::kTf32, .options = all}, kFull},
      {"gpu_bf16", {.on_gpu = true, .precision = Precision::kBf16, .options = all}, kBf16},
      {"gpu_f16", {.on_gpu = true, .precision = Precision::kF16, .options = all}, kF16},
  };
  return kCases;
}

// The length of the difference beside the length of what is expected.
double distance(const Tensor& got, const Tensor& want) {
  double difference = 0, whole = 1e-6;
  for (std::size_t i = 0; i < want.values<float>().size(); ++i) {
    const double a = got.values<float>()[i], b = want.values<float>()[i];
    difference += (a - b) * (a - b);
    whole += b * b;
  }
  return std::sqrt(difference / whole);
}

void expect_close(const Graph& graph, const Graph& expected, const Feeds& feeds, double tolerance) {
  const Feeds got = results_of(graph, feeds), want = results_of(expected, feeds);
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, t] : want) {
    ASSERT_TRUE(got.contains(name)) << name;
    ASSERT_EQ(got.at(name).type(), t.type()) << name;
    if (t.dtype() != DType::kF32) {
      ASSERT_EQ(bits(got.at(name)), bits(t)) << name;
    } else if (name != "output correct") {  // a rounding may decide between two classes
      ASSERT_LE(distance(got.at(name), t), name == "output loss" ? tolerance / 10 : tolerance)
          << name << "\n"
          << graph.to_text();
    }
  }
}

class Pipeline : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Case& row() const { return cases()[GetParam()]; }
  void expect_kept(const Graph& graph, const Feeds& feeds, double tolerance) const {
    const Result<Graph> after = run_pipeline(row().target, graph);
    ASSERT_TRUE(after.ok()) << after.status().to_string();
    ASSERT_TRUE(verify(*after).ok()) << verify(*after).to_string() << "\n" << after->to_text();
    expect_close(*after, graph, feeds, tolerance);
  }
};

TEST_P(Pipeline, KeepsWhatRandomNetsAndTheirGradientsCompute) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomNet net = random_net(seed, row().low());
    ASSERT_TRUE(verify(net.graph).ok()) << verify(net.graph).to_string();
    expect_kept(net.graph, net.feeds, row().tolerance);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Pipeline, KeepsWhatRandomGraphsComputeAndChange) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomGraph r = random_graph(seed, 40, /*with_hosts=*/seed % 2 == 1, Flavour::kRich);
    expect_kept(r.graph, r.feeds, 1e-5);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Pipeline, KeepsATrainingStepThatUpdatesItsVariables) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomGraph r = random_graph(seed, 30, /*with_hosts=*/false, Flavour::kSmooth);
    Builder b(r.graph);
    const Value loss = b.sum(b.tanh(*r.graph.find_output("last")));
    std::vector<Value> wrt;
    for (const auto& [name, v] : r.graph.variables()) wrt.push_back(v);
    const auto grads = *add_gradients(r.graph, loss, wrt);
    for (std::size_t i = 0; i < wrt.size(); ++i)
      b.output(fmt::format("w{}", i),
               b.add_node(op::kAssignAdd, {wrt[i], b.add_node(op::kScale, {grads[i]}, {{"factor", -0.1}})}));
    ASSERT_TRUE(b.status().ok()) << b.status().to_string();
    expect_kept(r.graph, r.feeds, 1e-5);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Pipeline, ::testing::Range<std::size_t>(0, cases().size()),
                         [](const auto& info) { return cases()[info.param].name; });

// Otherwise the tests above would say nothing about a row.
TEST(PipelineRows, AllRunForSomeTargetAndAllPassesChangeSomeNet) {
  std::set<const PipelineRow*> run;
  std::set<std::string_view> changes;
  for (const Case& c : cases())
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      Graph graph = random_net(seed, c.low()).graph;
      const PassOptions options = c.target.pass_options();
      for (const PipelineRow& row : pipeline()) {
        if (!row.when(c.target)) continue;
        run.insert(&row);
        Graph next = *row.pass->run(graph, options);
        if (!changes.contains(row.pass->name) && next.to_text() != graph.to_text())
          changes.insert(row.pass->name);
        graph = std::move(next);
      }
    }
  for (const PipelineRow& row : pipeline()) {
    EXPECT_TRUE(run.contains(&row)) << row.pass->name << " runs for no target";
    EXPECT_TRUE(changes.contains(row.pass->name)) << row.pass->name << " never did anything";
  }
}

}  // namespace
}  // namespace trireme::graph
