#include <gtest/gtest.h>

#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// x summed over ranks three times, with these slots.
Graph three_sums(const std::vector<std::int64_t>& slots) {
  Graph g;
  Builder b(g);
  Value x = b.input("x", DType::kF32, {4});
  for (const std::int64_t slot : slots) x = b.add_node(op::kAllreduce, {x}, {{"slot", slot}});
  b.output("y", x);
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return g;
}

std::vector<std::int64_t> slots_of(const Graph& g) {
  std::vector<std::int64_t> slots;
  for (std::int32_t i = 0; i < g.size(); ++i)
    if (g.node(i).def == &op::kAllreduce) slots.push_back(g.node(i).attrs.get_int("slot"));
  return slots;
}

TEST(NumberSlots, GivesNodesWithoutOneTheNextThatIsFree) {
  const auto numbered = number_slots(three_sums({-1, 8, -1}), 7, 10);
  ASSERT_TRUE(numbered.ok()) << numbered.status().to_string();
  EXPECT_EQ(slots_of(*numbered), (std::vector<std::int64_t>{7, 8, 9}));
  EXPECT_TRUE(verify(*numbered).ok());
  EXPECT_TRUE(numbered->find_output("y").has_value());
}

TEST(NumberSlots, OfGradientsAreTheirOwn) {
  Graph g = three_sums({-1, -1});
  Builder b(g);
  b.output("loss", b.sum(*g.find_output("y")));
  const std::vector<Value> wrt{*g.find_input("x")};
  const auto grads = add_gradients(g, *g.find_output("loss"), wrt);
  ASSERT_TRUE(grads.ok()) << grads.status().to_string();
  g.set_output("grad", (*grads)[0]);
  EXPECT_EQ(slots_of(*number_slots(g, 0, 4)), (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST(NumberSlots, RefusesTwoNodesWithOneSlotAndTooFewSlots) {
  EXPECT_EQ(number_slots(three_sums({5, -1, 5}), 0, 10).status().code(), Code::kInvalid);
  EXPECT_EQ(number_slots(three_sums({-1, -1, -1}), 0, 2).status().code(), Code::kExhausted);
}

TEST(NumberSlots, KnowsGraphsThatMeetOthers) {
  EXPECT_TRUE(has_collectives(three_sums({-1})));
  EXPECT_FALSE(has_collectives(three_sums({})));
}

}  // namespace
}  // namespace trireme::graph
