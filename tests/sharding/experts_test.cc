// The style that deals out experts: what it cuts, what moves, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/model/describe.h"
#include "trireme/model/zoo.h"
#include "trireme/parallel/shard/style.h"

namespace trireme::parallel {
namespace {

using op::AxisCut;
using ::testing::HasSubstr;

graph::Graph gpt_with_experts(double top, DType products = DType::kF32) {
  const model::ModelInput text{Shape{16}, 65, model::ModelTask::kLanguage};
  return model::build_model("char-gpt", text, 8,
                            {{{"width", 32}, {"layers", 2}, {"experts", 4}, {"top", top}, {"capacity", 1}}},
                            {.products = products})
      ->train;
}

Result<AxisLayouts> dealt_out(const graph::Graph& g, int parts) {
  ShardRequest request;
  request.axis = {"model", parts};
  TR_RETURN_IF_ERROR(restrict_to(*find_style("expert"), {}, g, request));
  return choose_layouts(g, request);
}

TEST(ExpertStyle, CutsExpertsAndNothingElse) {
  for (const DType products : {DType::kF32, DType::kBF16}) {
    const graph::Graph g = gpt_with_experts(1, products);
    const auto layouts = dealt_out(g, 2);
    ASSERT_TRUE(layouts.ok()) << layouts.status().message();
    for (const auto& [name, v] : g.variables()) {
      const bool dealt =
          name.find("experts/up/") != std::string::npos || name.find("experts/down/") != std::string::npos;
      if (dealt) {
        EXPECT_EQ(layouts->cut_of(g, name), AxisCut(0)) << name;
      } else if (g.type(v).shape.rank() >= 2) {
        EXPECT_EQ(layouts->cut_of(g, name), AxisCut(op::kReplicate)) << name;
      }
    }
  }
}

TEST(ExpertStyle, TokensTravelToTheirExpertsAndBackByAllToAll) {
  for (const double top : {1, 2})
    for (const int parts : {2, 4}) {
      SCOPED_TRACE(fmt::format("top {}, {} positions", top, parts));
      const graph::Graph g = gpt_with_experts(top);
      const auto layouts = dealt_out(g, parts);
      ASSERT_TRUE(layouts.ok()) << layouts.status().message();
      int travels = 0;
      const auto moves = reshards_of(g, *layouts, {});
      ASSERT_TRUE(moves.ok()) << moves.status().message();
      for (const ReshardRow& row : *moves) {
        const bool is_of_tokens = row.node.find("experts/reshape") != std::string::npos;
        if (!is_of_tokens || !row.from.cuts() || !row.to.cuts()) continue;
        EXPECT_EQ(row.collective, "all_to_all") << row.node;
        ++travels;
      }
      EXPECT_EQ(travels, 4) << "there and back, and so do the gradients";
    }
}

TEST(ExpertStyle, AModelWithoutExpertsOrWithTooFewIsRefused) {
  const model::ModelInput text{Shape{16}, 65, model::ModelTask::kLanguage};
  const auto plain = model::build_model("char-gpt", text, 8, {{{"width", 32}, {"layers", 2}}});
  EXPECT_THAT(
      dealt_out(plain->train, 2).status().message(),
      HasSubstr("style 'expert' does not fit the model on axis 'model' of 2: it has no layer of experts"));
  EXPECT_THAT(dealt_out(gpt_with_experts(1), 5).status().message(), HasSubstr("block1/experts/up/"));
}

}  // namespace
}  // namespace trireme::parallel
