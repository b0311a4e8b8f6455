// Locally connected models whose images are cut: filters stay where their outputs are.
#include <gtest/gtest.h>

#include "trireme/model/zoo.h"
#include "trireme/parallel/shard/style.h"

namespace trireme::parallel {
namespace {

using op::AxisCut;

Result<AxisLayouts> lay_out(const graph::Graph& g, int parts, const char* style,
                            const std::vector<LayoutPin>& pins) {
  ShardRequest request;
  request.axis = {"model", parts};
  TR_RETURN_IF_ERROR(restrict_to(*find_style(style), pins, g, request));
  return choose_layouts(g, request);
}

// Images of 8 rows behind the pooling, one of which is cut from 3 positions on: units matter there alone.
TEST(SpatialStyle, ImagesCutUntiedFiltersWithThem) {
  const model::ModelGraphs m =
      *model::build_model("local-net-1700m", {Shape{2, 16, 16}, 5}, 4, {{{"maps", 8}}});
  for (const int parts : {2, 3}) {
    const auto layouts = lay_out(m.train, parts, "spatial", {*parse_pin("fc/weight: model=1x8u8")});
    ASSERT_TRUE(layouts.ok()) << layouts.status().message();
    for (const char* name : {"local1", "local2", "local3"}) {
      const AxisCut filters = layouts->cut_of(m.train, std::string(name) + "/weight");
      const AxisCut biases = layouts->cut_of(m.train, std::string(name) + "/bias");
      EXPECT_TRUE(filters == AxisCut(0) || filters == AxisCut(1)) << name << ": " << filters.to_text();
      EXPECT_EQ(biases.dim, filters.dim + 1) << name;
    }
    const auto moves = reshards_of(m.train, *layouts, {});
    ASSERT_TRUE(moves.ok()) << moves.status().message();
    for (const ReshardRow& row : *moves)
      EXPECT_FALSE(row.node.starts_with("local") && row.node.ends_with("/weight")) << row.node << " travels";
  }
  const auto whole = lay_out(m.train, 3, "spatial", {});
  ASSERT_TRUE(whole.ok());
  EXPECT_FALSE(whole->cut_of(m.train, "fc/weight").cuts());
}

}  // namespace
}  // namespace trireme::parallel
