// Locally connected models whose images are cut: filters stay where their outputs are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/model/zoo.h"
#include "trireme/parallel/shard/style.h"

namespace trireme::parallel {
namespace {

using op::AxisCut;
using ::testing::HasSubstr;
using ::testing::Not;

Result<AxisLayouts> lay_out(const graph::Graph& g, int parts, const char* style,
                            const std::vector<LayoutPin>& pins) {
  ShardRequest request;
  request.axis = {"model", parts};
  // Nets are small here: bytes and products count, not the latency of messages.
  request.costs.comm.link.latency_ns = 0;
  request.costs.comm.link.message_overhead_ns = 0;
  TR_RETURN_IF_ERROR(restrict_to(*find_style(style), pins, g, request));
  return choose_layouts(g, request);
}

model::ModelGraphs local_net(const char* name, const Shape& images, const model::ModelOptions& options) {
  return *model::build_model(name, {images, 5}, 4, options);
}

void expect_weights_stay(const graph::Graph& g, const AxisLayouts& layouts) {
  const auto moves = reshards_of(g, layouts, {});
  ASSERT_TRUE(moves.ok()) << moves.status().message();
  for (const ReshardRow& row : *moves) {
    EXPECT_FALSE(row.node.ends_with("/weight")) << row.collective << " of " << row.node;
    EXPECT_THAT(row.node, Not(HasSubstr("filter_grad"))) << row.collective;
  }
}

// Images of 8 rows behind the pooling, one of which is cut from 3 positions on: units matter there alone.
TEST(SpatialStyle, ImagesCutUntiedFiltersAndTheLayerBehindThemWithThem) {
  const model::ModelGraphs m = local_net("local-net-1700m", Shape{2, 16, 16}, {{{"maps", 8}}});
  for (const int parts : {2, 3, 4}) {
    const auto layouts = lay_out(m.train, parts, "spatial", {});
    ASSERT_TRUE(layouts.ok()) << layouts.status().message();
    int side = -1;
    for (const char* name : {"local1", "local2", "local3"}) {
      const AxisCut filters = layouts->cut_of(m.train, std::string(name) + "/weight");
      const AxisCut biases = layouts->cut_of(m.train, std::string(name) + "/bias");
      EXPECT_TRUE(filters == AxisCut(0) || filters == AxisCut(1)) << name << ": " << filters.to_text();
      EXPECT_EQ(biases.dim, filters.dim + 1) << name;
      EXPECT_TRUE(side < 0 || filters.dim == side) << name << " is cut along the other side";
      side = filters.dim;
    }
    // 8 maps of 8 rows of 8: rows are units of 8 in 8 blocks, columns single points in 64.
    const AxisCut fc = layouts->cut_of(m.train, "fc/weight");
    EXPECT_EQ(fc, shortest(side == 0 ? AxisCut(1, 8, 8) : AxisCut(1, 64), Shape{5, 512}, parts))
        << fc.to_text();
    expect_weights_stay(m.train, *layouts);
  }
}

// As large as it is: what moves beside edges are sums of the classifier's outputs and of biases.
TEST(SpatialStyle, OfALargeImageOnlyEdgesTravel) {
  const model::ModelGraphs m = *model::build_model("local-net-1700m", {Shape{3, 200, 200}, 1000}, 64, {});
  for (const int parts : {2, 8, 64}) {
    const auto layouts = lay_out(m.train, parts, "spatial", {});
    ASSERT_TRUE(layouts.ok()) << layouts.status().message();
    EXPECT_EQ(layouts->cut_of(m.train, "fc/weight"), shortest({1, 24, 100}, Shape{1000, 240000}, parts));
    expect_weights_stay(m.train, *layouts);
    const auto moves = reshards_of(m.train, *layouts, {});
    ASSERT_TRUE(moves.ok()) << moves.status().message();
    for (const ReshardRow& row : *moves) {
      if (row.collective == "halo_exchange") continue;
      EXPECT_LT(row.bytes, 1e6) << parts << ": " << row.collective << " of " << row.node;
    }
  }
}

// Windows of 10 rows reach beyond neighbors with 4 and fewer: activations travel from there too.
TEST(SpatialStyle, FiltersStayWhereWindowsReachBeyondANeighbor) {
  const model::ModelGraphs m = local_net("cots-hpc", Shape{1, 28, 28}, {{{"maps", 8}}});
  for (const int parts : {2, 3, 4}) {
    const auto layouts = lay_out(m.train, parts, "spatial", {});
    ASSERT_TRUE(layouts.ok()) << layouts.status().message();
    expect_weights_stay(m.train, *layouts);
  }
}

// Tied filters are needed everywhere; the layer that reads the flattened image is not, nor are layers that
// other rank-2 values reach whole.
TEST(SpatialStyle, ConvolutionsStayWholeAndTheLayerBehindThemIsCut) {
  const model::ModelGraphs m = *model::build_model("lenet5", {Shape{1, 28, 28}, 10}, 8, {});
  const auto layouts = lay_out(m.train, 4, "spatial", {});
  ASSERT_TRUE(layouts.ok()) << layouts.status().message();
  for (const char* name : {"conv1/weight", "conv2/weight", "fc2/weight", "fc3/weight"})
    EXPECT_FALSE(layouts->cut_of(m.train, name).cuts()) << name;
  EXPECT_EQ(layouts->cut_of(m.train, "fc1/weight").dim, 1);
  // 5 rows are too few for 6 positions, and the layer is whole again.
  const auto many = lay_out(m.train, 6, "spatial", {});
  ASSERT_TRUE(many.ok()) << many.status().message();
  EXPECT_FALSE(many->cut_of(m.train, "fc1/weight").cuts());
}

TEST(SpatialStyle, DropoutBetweenImageAndLayerDoesNotHideTheImage) {
  const model::ModelGraphs m = *model::build_model("alexnet", {Shape{3, 96, 96}, 10}, 4, {});
  const auto layouts = lay_out(m.train, 2, "spatial", {});
  ASSERT_TRUE(layouts.ok()) << layouts.status().message();
  EXPECT_EQ(layouts->cut_of(m.train, "fc6/weight").dim, 1);
  EXPECT_FALSE(layouts->cut_of(m.train, "fc7/weight").cuts());
}

}  // namespace
}  // namespace trireme::parallel
