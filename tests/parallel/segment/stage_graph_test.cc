#include "trireme/parallel/segment/stage_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Four layers; the last one also reads what the first one made, and "half" is made by the second.
SegmentedModel four_stages() {
  graph::Graph g;
  graph::Builder b(g);
  op::Value x = b.input("images", DType::kF32, {2, 4}), first;
  for (const char* name : {"a", "b", "c", "d"}) {
    g.push_scope(name);
    if (*name == 'd') x = b.add(x, first);
    x = b.relu(b.matmul(x, b.variable("weight", DType::kF32, {4, 4})));
    if (*name == 'a') first = x;
    g.pop_scope();
    if (*name == 'b') b.output("half", x);
  }
  b.output("logits", x);
  TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  const LayerList list = layers_of(g);
  SegmentRequest request{&g, &list, *balanced_cuts(list, 4)};
  request.gathers_outputs = true;
  auto model = cut_model(request);
  TR_CHECK(model.ok(), "{}", model.status().to_string());
  return std::move(*model);
}

struct Message {
  std::int64_t peer = 0, slot = 0;
  friend bool operator==(const Message&, const Message&) = default;
};
std::vector<Message> messages_of(const graph::Graph& graph, const op::OpDef& def) {
  std::vector<Message> all;
  for (std::int32_t i = 0; i < graph.size(); ++i)
    if (const graph::Node& node = graph.node(i); node.def == &def) {
      EXPECT_EQ(node.attrs.get_text("axis"), kStageAxis);
      all.push_back({node.attrs.get_int("peer"), node.attrs.get_int("slot")});
    }
  return all;
}

std::vector<graph::Graph> joined(const SegmentedModel& model) {
  std::vector<graph::Graph> stages;
  for (std::int32_t s = 0; s < 4; ++s) {
    auto graph = add_messages(model.segments[static_cast<std::size_t>(s)].graph, {&model, 100, 100}, s);
    TR_CHECK(graph.ok(), "{}", graph.status().to_string());
    stages.push_back(std::move(*graph));
  }
  return stages;
}

TEST(StageGraph, NeighborsHaveTheSameMessages) {
  const SegmentedModel model = four_stages();
  const std::vector<graph::Graph> stages = joined(model);
  EXPECT_THAT(messages_of(stages[0], op::kRecv), IsEmpty());
  EXPECT_THAT(messages_of(stages[3], op::kSend), IsEmpty());
  std::vector<std::int64_t> slots;
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    std::vector<Message> sent = messages_of(stages[s], op::kSend);
    EXPECT_EQ(sent.size(), model.between(static_cast<std::int32_t>(s)).size());
    for (Message& m : sent) {
      EXPECT_EQ(m.peer, static_cast<std::int64_t>(s) + 1);
      slots.push_back(m.slot);
      m.peer = static_cast<std::int64_t>(s);
    }
    EXPECT_EQ(messages_of(stages[s + 1], op::kRecv), sent);
  }
  std::sort(slots.begin(), slots.end());
  EXPECT_EQ(std::unique(slots.begin(), slots.end()), slots.end()) << "one may be under way while others are";
  EXPECT_GE(slots.front(), 100);
  EXPECT_LT(slots.back(), 200);
}

TEST(StageGraph, AValueThatOthersReadPassesThrough) {
  const SegmentedModel model = four_stages();
  const std::vector<graph::Graph> stages = joined(model);
  // The third stage reads what the second made and passes on that, which is an output, and the skip.
  EXPECT_EQ(messages_of(stages[2], op::kRecv).size(), 2U);
  EXPECT_EQ(messages_of(stages[2], op::kSend).size(), 3U);
  for (const graph::Graph& stage : stages)
    for (std::int32_t i = 0; i < stage.size(); ++i)
      if (stage.node(i).def == &op::kInput) {
        EXPECT_EQ(stage.node(i).attrs.get_text("name"), "images");
      }
}

TEST(StageGraph, TheLastStageHasTheOutputs) {
  const std::vector<graph::Graph> stages = joined(four_stages());
  for (std::size_t s = 0; s < 4; ++s)
    for (const char* output : {"half", "logits"})
      EXPECT_EQ(stages[s].find_output(output).has_value(), s == 3) << output << " of stage " << s;
}

TEST(StageGraph, SaysWhereSlotsAreTooFew) {
  const SegmentedModel model = four_stages();
  EXPECT_THAT(add_messages(model.segments[0].graph, {&model, 0, 8}, 0).status().message(),
              HasSubstr("need 9 message slots, and there are 8; use fewer stages"));
}

}  // namespace
}  // namespace trireme::parallel
