// Regions in chunks: every scheme gives the loss and all gradients of the whole graph, in f64, with the
// collectives that it names, and leaves the rest of the graph alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/sharding/positions.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/model/zoo.h"
#include "trireme/op/ops.h"
#include "trireme/parallel/shard/style.h"

namespace trireme::parallel::testing {
namespace {

using graph::Graph;
using graph::Node;

// ---- Graphs

void add_grads(Graph& g, graph::Value loss) {
  std::vector<graph::Value> wrt;
  const auto variables = g.variables();
  for (const auto& [name, v] : variables) wrt.push_back(v);
  const auto grads = add_gradients(g, loss, wrt);
  TR_CHECK(grads.ok(), "{}", grads.status().message());
  for (std::size_t i = 0; i < wrt.size(); ++i) g.set_output("grad:" + variables[i].first, (*grads)[i]);
}

// A convolution, three fully connected layers and the loss.
Graph conv_net(std::int64_t batch, bool low = false) {
  Graph g;
  graph::Builder b(g);
  const auto f32 = DType::kF32;
  const auto x = b.input("images", f32, {batch, 2, 6, 6});
  const auto conv = b.bias_add(b.conv2d(x, b.variable("conv/weight", f32, {3, 2, 3, 3})),
                               b.variable("conv/bias", f32, {3}));
  auto h = b.reshape(b.max_pool2d(b.relu(conv), 2, 2), {batch, 12});
  const std::int64_t widths[] = {12, 9, 8, 6};
  for (int layer = 1; layer <= 3; ++layer) {
    const std::string name = fmt::format("fc{}", layer);
    const auto w = b.variable(name + "/weight", f32, {widths[layer], widths[layer - 1]});
    h = b.bias_add(b.matmul(h, w, false, true), b.variable(name + "/bias", f32, {widths[layer]}));
    if (layer < 3) h = b.relu(h);
  }
  const auto labels = b.input("labels", DType::kI32, {batch}), weights = b.input("weights", f32, {batch});
  const auto losses = b.softmax_cross_entropy(h, labels, weights);
  b.output("loss", b.sum(losses));
  TR_CHECK(b.status().ok(), "{}", b.status().message());
  if (low) g = *lower_precision(g, DType::kBF16);
  add_grads(g, *g.find_output("loss"));
  return g;
}

Graph transformer(std::int64_t batch) {
  const model::ModelInput text{Shape{6}, 11, model::ModelTask::kLanguage};
  const auto built = model::build_model("char-gpt", text, batch,
                                        {{{"width", 12}, {"layers", 2}, {"heads", 3}, {"dropout", 0.1}}});
  TR_CHECK(built.ok(), "{}", built.status().message());
  return built->train;
}

Result<AxisLayouts> lay_out_transformer(const Graph& g, int parts) {
  ShardRequest request;
  request.axis = {"model", parts};
  request.seconds_per_held_byte = 1e-9;
  TR_RETURN_IF_ERROR(restrict_to(*find_style("tensor"), {}, g, request));
  return choose_layouts(g, request);
}

// One weird trick as it is at sizes where it pays: images are cut by samples, products by their weights.
Result<AxisLayouts> lay_out_conv_net(const Graph& g, int parts, const std::vector<std::string>& pins) {
  ShardRequest request;
  request.axis = {"model", parts};
  std::vector<LayoutPin> parsed;
  for (const std::string& pin : pins) parsed.push_back(*parse_pin(pin));
  TR_RETURN_IF_ERROR(restrict_to(*find_style("one-weird-trick"), parsed, g, request));
  const std::int64_t batch = g.type(*g.find_input("images")).shape[0];
  const auto is_image = [batch](const TensorType& t) { return t.shape.rank() == 4 && t.shape[0] == batch; };
  request.allowed = [styled = request.allowed, &g, batch, is_image](const Node& node,
                                                                    const op::LayoutOption& option) {
    const op::AxisCut& out = option.outputs[0];
    if (node.def == &op::kMatmul) {
      const bool of_samples = node.outputs[0].shape[0] == batch;
      return of_samples ? out == 1 || out == op::kPartial : out.cuts();
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (is_image(g.type(node.inputs[i])) && option.inputs[i] != 0) return false;
    return styled(node, option);
  };
  return choose_layouts(g, request);
}

// Fully connected layers by columns, so that they want all samples.
const std::vector<std::string> kColumns{"fc*/weight: model=0"};

// ---- What is looked at

// "allgather of fc1/...": the exchanges that a run of a graph makes, in order.
std::vector<std::string> exchanges(const Graph& whole) {
  std::vector<std::string> all;
  const Graph g = *eliminate_dead_code(whole, {});
  for (std::int32_t id = 0; id < g.size(); ++id)
    if (const Node& node = g.node(id); node.def->family == "comm")
      all.push_back(fmt::format("{} of {}, root {}", node.def->name, node.attrs.get_text("label"),
                                node.def == &op::kBroadcast ? node.attrs.get_int("root") : -1));
  return all;
}

// Exchanges of activations; biases have one dimension.
std::int64_t count(const Graph& g, const op::OpDef& def, int dim = -1) {
  std::int64_t n = 0;
  for (std::int32_t id = 0; id < g.size(); ++id) {
    const Node& node = g.node(id);
    if (node.def != &def || node.outputs[0].shape.rank() == 1) continue;
    if (dim < 0 || node.attrs.get_int("dim") == dim) ++n;
  }
  return n;
}

// Positions make the same exchanges in the same order, and together give what the whole graph gives. Returns
// the chunks that exchanges have; 0: nothing was chunked.
std::size_t expect_equal(const Graph& g, const AxisLayouts& layouts, const Tensors& fed,
                         const Tensors& expected, const ChunkRequest& request) {
  const int parts = layouts.axis.num_parts;
  const Graph first = *shard_graph(g, layouts, 0);
  const ChunkPlan plan = choose_chunks(first, layouts.axis, request);
  const auto order = exchanges(*shard_in_chunks(g, layouts, request, 0));
  for (int p = 1; p < parts; ++p) EXPECT_EQ(exchanges(*shard_in_chunks(g, layouts, request, p)), order);
  const auto got = run_positions(g, layouts, fed, request);
  EXPECT_TRUE(got.ok()) << got.status().message();
  for (std::size_t o = 0; got.ok() && o < g.outputs().size(); ++o)
    for (int p = 0; p < parts; ++p) {
      const std::string& name = g.outputs()[o].first;
      expect_close((*got)[static_cast<std::size_t>(p)].at(name),
                   part_of(expected.at(name), layouts.outputs[o], parts, p), 1e-12,
                   fmt::format("{} at position {}", name, p));
    }
  return plan.regions.empty() ? 0 : plan.regions[0].num_chunks();
}

struct Scheme {
  ChunkRequest request;
  std::size_t chunks(int parts) const {
    const bool of_positions = request.scheme == FcScheme::kVertical || request.chunks == 1;
    return of_positions ? static_cast<std::size_t>(parts) : static_cast<std::size_t>(request.chunks);
  }
};
const Scheme kSchemes[] = {{{FcScheme::kVertical, 1}},   {{FcScheme::kHorizontal, 1}},
                           {{FcScheme::kHorizontal, 2}}, {{FcScheme::kHorizontal, 3}},
                           {{FcScheme::kHorizontal, 8}}, {{FcScheme::kBroadcast, 2}},
                           {{FcScheme::kBroadcast, 3}},  {{FcScheme::kBroadcast, 8}}};

std::string words(const ChunkRequest& request) {
  return fmt::format("{}, {} chunks", kFcSchemes[static_cast<int>(request.scheme)], request.chunks);
}

// ---- Cases

TEST(ChunkedRegions, GiveWhatTheWholeGraphGivesUnderOneWeirdTrick) {
  const Graph g = *in_f64(conv_net(25));
  const Tensors fed = made_up(g, 6);
  const Tensors expected = *run_whole(g, fed);
  const std::vector<std::vector<std::string>> ways{
      kColumns, {"fc*/weight: model=1"}, {"fc1/weight: model=0", "fc2/weight: model=1"}};
  for (const auto& pins : ways)
    for (const int parts : {2, 3}) {
      const auto layouts = lay_out_conv_net(g, parts, pins);
      ASSERT_TRUE(layouts.ok()) << layouts.status().message();
      for (const Scheme& s : kSchemes) {
        SCOPED_TRACE(fmt::format("{}, {}, {} positions", words(s.request), pins[0], parts));
        EXPECT_EQ(expect_equal(g, *layouts, fed, expected, s.request), s.chunks(parts));
      }
    }
}

TEST(ChunkedRegions, GiveWhatTheWholeGraphGivesOfATransformer) {
  const Graph g = *in_f64(transformer(9));
  const Tensors fed = made_up(g, 11);
  const Tensors expected = *run_whole(g, fed);
  for (const int parts : {2, 3}) {
    const auto layouts = lay_out_transformer(g, parts);
    ASSERT_TRUE(layouts.ok()) << layouts.status().message();
    for (const int chunks : {2, 3, 8}) {
      SCOPED_TRACE(fmt::format("{} chunks, {} positions", chunks, parts));
      const ChunkRequest request{FcScheme::kBroadcast, chunks};
      EXPECT_EQ(expect_equal(g, *layouts, fed, expected, request), static_cast<std::size_t>(chunks));
    }
  }
}

TEST(ChunkedRegions, BroadcastChunksOfPositionsOrGatherPartsOfAll) {
  const Graph g = conv_net(24);
  for (const int parts : {2, 3}) {
    const auto layouts = lay_out_conv_net(g, parts, kColumns);
    ASSERT_TRUE(layouts.ok()) << layouts.status().message();
    const Graph once = *shard_graph(g, *layouts, 0);
    const std::int64_t gathers = count(once, op::kAllgather, 0);
    ASSERT_GT(gathers, 0);
    EXPECT_EQ(count(once, op::kBroadcast), 0);
    const Graph vertical = *shard_in_chunks(g, *layouts, {FcScheme::kVertical, 1}, 1);
    EXPECT_EQ(count(vertical, op::kBroadcast), gathers * parts);
    EXPECT_EQ(count(vertical, op::kAllgather, 0), 0);
    const Graph horizontal = *shard_in_chunks(g, *layouts, {FcScheme::kHorizontal, 4}, 1);
    EXPECT_EQ(count(horizontal, op::kBroadcast), 0);
    EXPECT_EQ(count(horizontal, op::kAllgather, 0), 4 * gathers);
    const Graph broadcast = *shard_in_chunks(g, *layouts, {}, 1);
    EXPECT_EQ(broadcast.to_text(), shard_graph(g, *layouts, 1)->to_text());
  }
}

TEST(ChunkedRegions, LeaveTheOtherNodesAsTheyAre) {
  const Graph g = conv_net(24);
  const auto layouts = lay_out_conv_net(g, 2, kColumns);
  ASSERT_TRUE(layouts.ok()) << layouts.status().message();
  const Graph before = *shard_graph(g, *layouts, 0);
  const ChunkPlan plan = choose_chunks(before, layouts->axis, {FcScheme::kHorizontal, 3});
  const Graph after = *chunk_graph(before, plan, 0);
  std::map<std::string, const Node*> found;
  for (std::int32_t id = 0; id < after.size(); ++id) found[after.node(id).name] = &after.node(id);
  int alike = 0, chunked = 0;
  for (std::int32_t id = 0; id < before.size(); ++id) {
    const Node& node = before.node(id);
    if (plan.nodes[static_cast<std::size_t>(id)].region >= 0) {
      EXPECT_EQ(found.count(node.name), 0U) << node.name;
      ++chunked;
      continue;
    }
    ASSERT_EQ(found.count(node.name), 1U) << node.name;
    EXPECT_EQ(found[node.name]->def, node.def) << node.name;
    EXPECT_EQ(found[node.name]->attrs, node.attrs) << node.name;
    EXPECT_EQ(found[node.name]->outputs, node.outputs) << node.name;
    ++alike;
  }
  EXPECT_GT(alike, 10);
  EXPECT_GT(chunked, 10);
  for (std::int32_t id = 0; id < before.size(); ++id)
    if (before.node(id).def->name.starts_with("conv2d")) {
      EXPECT_LT(plan.nodes[static_cast<std::size_t>(id)].region, 0) << before.node(id).name;
    }
}

TEST(ChunkedRegions, SendChunksBeforeTheyMultiplyTheFirst) {
  const Graph g = conv_net(24);
  const auto layouts = lay_out_conv_net(g, 2, kColumns);
  ASSERT_TRUE(layouts.ok()) << layouts.status().message();
  const Graph chunked = *shard_in_chunks(g, *layouts, {FcScheme::kHorizontal, 4}, 0);
  int gathers = 0, products_after_first = 0;
  for (std::int32_t id = 0; id < chunked.size() && gathers < 4; ++id) {
    if (chunked.node(id).def == &op::kAllgather) ++gathers;
    if (chunked.node(id).def == &op::kMatmul) ++products_after_first;
  }
  EXPECT_EQ(gathers, 4);
  EXPECT_EQ(products_after_first, 0);
}

TEST(ChunkedRegions, StayWholeWhereThereAreTooFewSamples) {
  const Graph g = conv_net(7);
  const auto layouts = lay_out_conv_net(g, 2, kColumns);
  ASSERT_TRUE(layouts.ok()) << layouts.status().message();
  const Graph first = *shard_graph(g, *layouts, 0);
  for (const ChunkRequest& request :
       {ChunkRequest{FcScheme::kHorizontal, 4}, ChunkRequest{FcScheme::kBroadcast, 64}}) {
    const ChunkPlan plan = choose_chunks(first, layouts->axis, request);
    EXPECT_TRUE(plan.regions.empty()) << words(request);
    EXPECT_TRUE(plan.moves.empty()) << words(request);
    EXPECT_EQ(chunk_graph(first, plan, 0)->to_text(), first.to_text());
  }
  EXPECT_FALSE(choose_chunks(first, layouts->axis, {FcScheme::kHorizontal, 3}).regions.empty());
}

TEST(ChunkedRegions, AddGradientsOfLowPrecisionInF32) {
  const Graph g = conv_net(24, /*low=*/true);
  const auto layouts = lay_out_conv_net(g, 2, kColumns);
  ASSERT_TRUE(layouts.ok()) << layouts.status().message();
  const Graph chunked = *shard_in_chunks(g, *layouts, {FcScheme::kHorizontal, 3}, 0);
  int added = 0;
  for (std::int32_t id = 0; id < chunked.size(); ++id) {
    const Node& node = chunked.node(id);
    if (node.def != &op::kAdd || node.name.find("/chunk") == std::string::npos) continue;
    EXPECT_EQ(node.outputs[0].dtype, DType::kF32) << node.name;
    ++added;
  }
  EXPECT_GE(added, 6);  // three weights in three chunks
}

}  // namespace
}  // namespace trireme::parallel::testing
