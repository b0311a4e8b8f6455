// Every model of the zoo, small, cut over 2 and 3 positions in several ways: the graphs of the positions give
// the loss and all gradients of the whole graph, in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/sharding/positions.h"
#include "trireme/model/zoo.h"
#include "trireme/op/ops.h"
#include "trireme/parallel/shard/style.h"

namespace trireme::parallel::testing {
namespace {

using model::ModelInput;
using model::ModelTask;

struct ZooCase {
  const char* name;
  ModelInput input;
  model::ModelOptions options = {};
  std::int64_t batch = 4;
  bool convolves = false;
};

const ModelInput kDigits{Shape{1, 28, 28}, 10}, kText{Shape{6}, 11, ModelTask::kLanguage};

std::vector<ZooCase> zoo_cases() {
  const ModelInput image{Shape{3, 32, 32}, 7};
  return {{"linear", {Shape{1, 5, 5}, 7}},
          {"mlp", {Shape{1, 5, 5}, 7}},
          {"lenet", kDigits, {}, 4, true},
          {"mnist-mlp", {Shape{1, 5, 5}, 7}, {{{"scale", 0.02}}}},
          {"local-net", kDigits, {}, 3, true},
          {"speech-42m", {Shape{20}, 9}, {{{"scale", 0.005}, {"layers", 2}}}},
          {"char-gpt", kText, {{{"width", 12}, {"layers", 2}, {"heads", 3}, {"dropout", 0.1}}}},
          {"char-gpt", kText, {{{"width", 12}, {"layers", 2}, {"heads", 3}, {"experts", 4}, {"top", 2}}}},
          {"char-lstm", kText, {{{"width", 6}, {"layers", 1}, {"dropout", 0.2}}}},
          {"autoencoder", {Shape{1, 5, 5}, 7, ModelTask::kReconstruct}, {{{"hidden", 9}}}},
          {"resnet18", image, {{{"scale", 0.05}}}, 3, true}};
}

bool has_experts(const ZooCase& c) {
  return std::any_of(c.options.items.begin(), c.options.items.end(),
                     [](const auto& option) { return option.first == "experts"; });
}

// Ways of laying out: a style, or matrices along one dimension.
const char* const kWays[] = {"price",    "data",   "tensor", "one-weird-trick", "spatial",
                             "sequence", "expert", "rows",   "columns"};

Status restrict(const std::string& way, const graph::Graph& graph, ShardRequest& request) {
  const int dim = way == "rows" ? 0 : way == "columns" ? 1 : -1;
  if (dim < 0) {
    TR_ASSIGN_OR_RETURN(const StyleRow* style, find_style(way));
    return restrict_to(style, {}, graph, request);
  }
  request.allowed = [dim](const graph::Node& node, const op::LayoutOption& option) {
    const Shape& shape = node.outputs[0].shape;
    return node.def != &op::kVariable || shape.rank() != 2 || shape[dim] < 3 || option.outputs[0].dim == dim;
  };
  return {};
}

std::vector<double> doubles(const Tensor& t) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < t.shape().num_elems(); ++i)
    out.push_back(t.dtype() == DType::kF64 ? t.data<double>()[i] : static_cast<double>(t.data<float>()[i]));
  return out;
}

void expect_close(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.type(), expected.type()) << what;
  const std::vector<double> a = doubles(got), b = doubles(expected);
  const double tolerance = got.dtype() == DType::kF64 ? 1e-12 : 1e-6;
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << what << ", element " << i;
}

// Styles that the model has nothing for.
bool misfits(const ZooCase& c, std::string_view way) {
  if (way == "expert") return !has_experts(c);
  if (way == "spatial") return !c.convolves;
  return way == "sequence" && c.input.task != ModelTask::kLanguage;
}

// So that equality says something.
bool cuts_a_variable(const graph::Graph& graph, const AxisLayouts& layouts) {
  const auto all = graph.variables();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& v) { return layouts.cut_of(graph, v.first).cuts(); });
}

void expect_equal(const std::string& way, const graph::Graph& graph, const Tensors& fed,
                  const Tensors& expected, const ShardRequest& request, const ChunkRequest& chunks = {}) {
  const Result<AxisLayouts> layouts = choose_layouts(graph, request);
  ASSERT_TRUE(layouts.ok()) << layouts.status().message();
  const bool wants_cuts = way == "tensor" || way == "expert" || way == "rows" || way == "columns";
  if (wants_cuts) {
    EXPECT_TRUE(cuts_a_variable(graph, *layouts));
  }
  const auto got = run_positions(graph, *layouts, fed, chunks);
  ASSERT_TRUE(got.ok()) << got.status().message();
  for (std::size_t o = 0; o < graph.outputs().size(); ++o) {
    const std::string& name = graph.outputs()[o].first;
    for (int p = 0; p < request.axis.num_parts; ++p)
      expect_close((*got)[static_cast<std::size_t>(p)].at(name),
                   part_of(expected.at(name), layouts->outputs[o], request.axis.num_parts, p),
                   fmt::format("{} at position {}", name, p));
  }
}

class ShardedZoo : public ::testing::TestWithParam<int> {};

TEST_P(ShardedZoo, GivesTheLossAndTheGradientsOfTheWhole) {
  const ZooCase c = zoo_cases()[static_cast<std::size_t>(GetParam())];
  const auto built = model::build_model(c.name, c.input, c.batch, c.options);
  ASSERT_TRUE(built.ok()) << built.status().message();
  const auto graph = in_f64(built->train);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const Tensors fed = made_up(*graph, c.input.num_classes);
  const auto expected = run_whole(*graph, fed);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const char* way : kWays)
    for (const int parts : {2, 3}) {
      SCOPED_TRACE(fmt::format("{}, {}, {} positions", c.name, way, parts));
      ShardRequest request;
      request.axis = {"model", parts};
      request.seconds_per_held_byte = 1e-9;
      const Status restricted = restrict(way, *graph, request);
      if (misfits(c, way)) {
        EXPECT_EQ(restricted.code(), Code::kInvalid) << "there is nothing for the style";
        continue;
      }
      ASSERT_TRUE(restricted.ok()) << restricted.message();
      expect_equal(way, *graph, fed, *expected, request);
    }
}

TEST_P(ShardedZoo, GivesTheSameInChunks) {
  const ZooCase c = zoo_cases()[static_cast<std::size_t>(GetParam())];
  const auto built = model::build_model(c.name, c.input, 5, c.options);
  ASSERT_TRUE(built.ok()) << built.status().message();
  const auto graph = in_f64(built->train);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const Tensors fed = made_up(*graph, c.input.num_classes);
  const auto expected = run_whole(*graph, fed);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const char* way : {"price", "tensor", "one-weird-trick", "columns"})
    for (const ChunkRequest& chunks :
         {ChunkRequest{FcScheme::kBroadcast, 2}, {FcScheme::kHorizontal, 2}, {FcScheme::kVertical, 1}}) {
      SCOPED_TRACE(fmt::format("{}, {}, {}", c.name, way, kFcSchemes[static_cast<int>(chunks.scheme)]));
      ShardRequest request;
      request.axis = {"model", 2};
      request.seconds_per_held_byte = 1e-9;
      const Status restricted = restrict(way, *graph, request);
      ASSERT_TRUE(restricted.ok()) << restricted.message();
      expect_equal(way, *graph, fed, *expected, request, chunks);
    }
}

INSTANTIATE_TEST_SUITE_P(Zoo, ShardedZoo, ::testing::Range(0, static_cast<int>(zoo_cases().size())),
                         [](const auto& info) {
                           const ZooCase c = zoo_cases()[static_cast<std::size_t>(info.param)];
                           std::string name = c.name;
                           std::erase(name, '-');
                           return name + (has_experts(c) ? "Experts" : "");
                         });

}  // namespace
}  // namespace trireme::parallel::testing
