#include "tests/sharding/zoo_cases.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/op/ops.h"
#include "trireme/parallel/shard/style.h"

namespace trireme::parallel::testing {
namespace {

using model::ModelInput;
using model::ModelTask;

// So that equality says something.
bool cuts_a_variable(const graph::Graph& graph, const AxisLayouts& layouts) {
  const auto all = graph.variables();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& v) { return layouts.cut_of(graph, v.first).cuts(); });
}

bool has_node_of(const graph::Graph& graph, const op::OpDef& def) {
  for (std::int32_t id = 0; id < graph.size(); ++id)
    if (graph.node(id).def == &def) return true;
  return false;
}

void expect_equal(std::string_view way, const ZooGraph& of, const ShardRequest& request,
                  const ChunkRequest& chunks = {}) {
  const Result<AxisLayouts> layouts = choose_layouts(of.graph, request);
  ASSERT_TRUE(layouts.ok()) << layouts.status().message();
  const bool wants_cuts = way == "tensor" || way == "expert" || way == "rows" || way == "columns";
  if (wants_cuts) {
    EXPECT_TRUE(cuts_a_variable(of.graph, *layouts));
  }
  if (way == "spatial") {
    EXPECT_TRUE(has_node_of(*shard_graph(of.graph, *layouts, 0), op::kHaloExchange));
  }
  const auto got = run_positions(of.graph, *layouts, of.fed, chunks);
  ASSERT_TRUE(got.ok()) << got.status().message();
  for (std::size_t o = 0; o < of.graph.outputs().size(); ++o) {
    const std::string& name = of.graph.outputs()[o].first;
    for (int p = 0; p < request.axis.num_parts; ++p)
      expect_close((*got)[static_cast<std::size_t>(p)].at(name),
                   part_of(of.expected.at(name), layouts->outputs[o], request.axis.num_parts, p),
                   of.tolerance, fmt::format("{} at position {}", name, p));
  }
}

ShardRequest request_over(int parts) {
  ShardRequest request;
  request.axis = {"model", parts};
  request.costs = costs_that_cut();
  request.seconds_per_held_byte = 1e-9;
  return request;
}

}  // namespace

std::vector<ZooCase> small_zoo() {
  const ModelInput image{Shape{3, 32, 32}, 7}, digits{Shape{1, 28, 28}, 10}, dots{Shape{1, 5, 5}, 7},
      text{Shape{6}, 11, ModelTask::kLanguage}, sound{Shape{20}, 9};
  const ModelInput rebuilt{Shape{1, 5, 5}, 7, ModelTask::kReconstruct};
  return {
      {"linear", "linear", dots},
      {"mlp", "mlp", dots},
      {"lenet", "lenet", digits, {}, 4, true},
      {"mnistmlp", "mnist-mlp", dots, {{{"scale", 0.02}}}},
      {"localnet", "local-net", digits, {}, 3, true},
      {"localnet1700m", "local-net-1700m", {Shape{2, 9, 9}, 7}, {{{"maps", 2}}}, 4, true},
      {"speech", "speech-42m", sound, {{{"scale", 0.005}, {"layers", 2}}}},
      {"gpt", "char-gpt", text, {{{"width", 12}, {"layers", 2}, {"heads", 3}, {"dropout", 0.1}}}},
      {"experts",
       "char-gpt",
       text,
       {{{"width", 12}, {"layers", 2}, {"heads", 3}, {"experts", 4}, {"top", 2}}},
       4,
       false,
       true},
      {"lstm", "char-lstm", text, {{{"width", 6}, {"layers", 1}, {"dropout", 0.2}}}},
      {"autoencoder", "autoencoder", rebuilt, {{{"hidden", 9}}}},
      {"resnet", "resnet18", image, {{{"scale", 0.05}}}, 3, true},
  };
}

std::vector<ZooCase> large_zoo() {
  const ModelInput image{Shape{3, 32, 32}, 7}, wide{Shape{3, 67, 67}, 7}, digits{Shape{1, 28, 28}, 10},
      text{Shape{7}, 11, ModelTask::kLanguage};
  return {
      {"lenet5", "lenet5", digits, {}, 4, true},
      {"mnistcnn", "mnist-cnn", digits, {{{"scale", 0.1}}}, 4, true},
      {"alexnet", "alexnet", wide, {{{"scale", 0.03}}}, 3, true},
      {"alexnettwotowers", "alexnet-2012", wide, {{{"scale", 0.05}}}, 3, true},
      {"vgg11", "vgg11", image, {{{"scale", 0.02}}}, 3, true},
      {"vgg16", "vgg16", image, {{{"scale", 0.02}}}, 3, true},
      {"vgg19", "vgg19", image, {{{"scale", 0.02}}}, 3, true},
      {"googlenet", "googlenet", wide, {{{"scale", 0.05}}}, 3, true},
      // Batch norm in 53 layers: gradients of the first ones are off by 2e-12.
      {"resnet50", "resnet50", wide, {{{"scale", 0.02}}}, 3, true, false, 1e-11},
      {"gpt2", "gpt2-124m", text, {{{"width", 24}, {"layers", 3}, {"heads", 4}}}},
  };
}

ZooCase zoo_case(const std::string& label) {
  std::vector<ZooCase> all = small_zoo();
  for (ZooCase& c : large_zoo()) all.push_back(std::move(c));
  for (const ZooCase& c : all)
    if (c.label == label) return c;
  TR_CHECK(false, "no case '{}'", label);
  return all[0];
}

ZooGraph made(const ZooCase& c, std::int64_t batch) {
  ZooGraph out;
  out.tolerance = c.tolerance;
  const auto built = model::build_model(c.name, c.input, batch, c.options);
  EXPECT_TRUE(built.ok()) << built.status().message();
  if (!built.ok()) return out;
  auto graph = in_f64(built->train);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return out;
  out.graph = std::move(*graph);
  out.fed = made_up(out.graph, c.input.num_classes);
  auto expected = run_whole(out.graph, out.fed);
  EXPECT_TRUE(expected.ok()) << expected.status().message();
  if (expected.ok()) out.expected = std::move(*expected);
  return out;
}

Status restrict_way(std::string_view way, const graph::Graph& graph, ShardRequest& request) {
  const int dim = way == "rows" ? 0 : way == "columns" ? 1 : -1;
  if (dim < 0) {
    TR_ASSIGN_OR_RETURN(const StyleRow* style, find_style(way));
    return restrict_to(style, {}, graph, request);
  }
  request.allowed = [dim, parts = request.axis.num_parts](const graph::Node& node,
                                                          const op::LayoutOption& option) {
    const Shape& shape = node.outputs[0].shape;
    return node.def != &op::kVariable || shape.rank() != 2 || shape[dim] < parts ||
           option.outputs[0].dim == dim;
  };
  return {};
}

bool misfits(const ZooCase& c, std::string_view way) {
  if (way == "expert") return !c.experts;
  if (way == "spatial") return !c.convolves;
  return way == "sequence" && c.input.task != ModelTask::kLanguage;
}

void expect_every_way_gives_the_whole(const ZooCase& c) {
  const ZooGraph whole = made(c, c.batch);
  for (const char* way : kWays)
    for (const int parts : {2, 3}) {
      SCOPED_TRACE(fmt::format("{}, {}, {} positions", c.name, way, parts));
      ShardRequest request = request_over(parts);
      const Status restricted = restrict_way(way, whole.graph, request);
      if (misfits(c, way)) {
        EXPECT_EQ(restricted.code(), Code::kInvalid) << "there is nothing for the style";
        continue;
      }
      ASSERT_TRUE(restricted.ok()) << restricted.message();
      expect_equal(way, whole, request);
    }
}

void expect_chunks_give_the_whole(const ZooCase& c) {
  const ZooGraph whole = made(c, 5);
  for (const char* way : {"price", "tensor", "one-weird-trick", "columns"})
    for (const ChunkRequest& chunks :
         {ChunkRequest{FcScheme::kBroadcast, 2}, {FcScheme::kHorizontal, 2}, {FcScheme::kVertical, 1}}) {
      SCOPED_TRACE(fmt::format("{}, {}, {}", c.name, way, kFcSchemes[static_cast<int>(chunks.scheme)]));
      ShardRequest request = request_over(2);
      const Status restricted = restrict_way(way, whole.graph, request);
      ASSERT_TRUE(restricted.ok()) << restricted.message();
      expect_equal(way, whole, request, chunks);
    }
}

void expect_mesh_gives_the_whole(const ZooCase& c, const std::string& mesh,
                                 const std::vector<std::string>& ways) {
  SCOPED_TRACE(fmt::format("{} over {} as {}", c.name, mesh, fmt::join(ways, ", ")));
  const ZooGraph whole = made(c, 4);
  const Mesh over = *parse_mesh(mesh);
  ASSERT_EQ(over.axes.size(), ways.size());
  std::size_t axis = 0;
  const auto cut = cut_over(whole.graph, over, [&](const graph::Graph& graph, ShardRequest& request) {
    return restrict_way(ways[axis++], graph, request);
  });
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  const auto got = run_ranks(*cut, whole.fed);
  ASSERT_TRUE(got.ok()) << got.status().message();
  expect_ranks_give(*cut, *got, whole.expected, whole.tolerance);
}

}  // namespace trireme::parallel::testing
