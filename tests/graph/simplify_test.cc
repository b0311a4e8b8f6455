// Common subexpressions and constant folding.
#include <gtest/gtest.h>

#include <limits>

#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"
#include "trireme/base/bytes.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"

namespace trireme::graph {
namespace {

constexpr DType kF32 = DType::kF32;

TEST(Cse, EqualExpressionsAreComputedOnce) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {4}), y = b.input("y", kF32, {4});
  const Value a = b.tanh(b.add(x, y)), c = b.tanh(b.add(x, y)), d = b.tanh(b.add(y, x));
  b.output("a", a);
  b.output("c", c);
  b.output("d", d);
  const Graph after = *run_pass("cse", g);
  EXPECT_EQ(*after.find_output("a"), *after.find_output("c"));
  EXPECT_NE(*after.find_output("a"), *after.find_output("d")) << "the order of operands counts";
  EXPECT_EQ(after.size(), 6);
}

TEST(CancelTransposes, WhatIsTurnedAndTurnedBackIsReadAsItWas) {
  Graph g;
  Builder b(g);
  const Value x = b.tanh(b.input("x", kF32, {2, 3, 5})), w = b.variable("w", kF32, {2, 3});
  using Ints = std::vector<std::int64_t>;
  const auto turn = [&](Value v, Ints order) {
    return b.add_node(op::kTranspose, {v}, {{"order", std::move(order)}});
  };
  b.output("back", b.tanh(turn(turn(x, {1, 2, 0}), {2, 0, 1})));
  b.output("on", b.tanh(turn(turn(x, {1, 2, 0}), {1, 2, 0})));
  b.output("reversed", turn(turn(x, {}), {2, 1, 0}));
  b.output("weight", turn(turn(w, {}), {}));
  const Graph after = *eliminate_dead_code(*run_pass("cancel_transposes", g), {});
  ASSERT_TRUE(verify(after).ok());
  EXPECT_EQ(count_ops(g, "transpose"), 8);
  EXPECT_EQ(count_ops(after, "transpose"), 2) << after.to_text();
  EXPECT_EQ(*after.find_output("weight"), *after.find_variable("w"));
}

TEST(CancelTransposes, WhatChangesInBetweenIsNotReadLate) {
  Graph g;
  Builder b(g);
  const Value w = b.variable("w", kF32, {2, 3}), lr = b.input("lr", kF32, {}),
              dw = b.input("dw", kF32, {2, 3});
  const Value turned = b.add_node(op::kTranspose, {w}, {});
  b.output("updated", b.add_node(op::kApplySgd, {w, dw, lr}));
  b.output("weight", b.add_node(op::kTranspose, {turned}, {}));
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  EXPECT_EQ(count_ops(*eliminate_dead_code(*run_pass("cancel_transposes", g), {}), "transpose"), 2);
}

TEST(Cse, AttributesAreComparedByTheirBits) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {4});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double f : {0.0, -0.0, nan, nan, 0.0}) b.add_node(op::kScale, {x}, {{"factor", f}});
  const Graph after = *run_pass("cse", g);
  EXPECT_EQ(count_ops(after, "scale"), 3) << "0, -0 and NaN";
}

TEST(Cse, RandomStatefulHostAndControlledNodesStay) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {4}), w = b.variable("w", kF32, {4});
  const Value key = b.input("key", DType::kI64, {}), ids = b.input("ids", DType::kI64, {4});
  for (int i = 0; i < 2; ++i) b.dropout(x, key, key, ids, 0.5, 7);
  for (int i = 0; i < 2; ++i) b.add_node(op::kAllreduce, {x}, {{"label", std::string("l")}});
  b.add_node(op::kAssignAdd, {b.add_node(op::kAssignAdd, {w, x}), x});
  const Value a = b.tanh(x), c = b.tanh(x);
  g.add_control(a.node, c.node);
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  EXPECT_EQ(run_pass("cse", g)->to_text(), g.to_text());
}

TEST(Fold, ConstantsBecomeFillWhereOneValueSaysItAllElseConstant) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2, 2});
  const Value splat = b.tanh(b.add(b.fill(0.5, kF32, {2, 2}), b.fill(0.25, kF32, {2})));
  const Value uneven = b.add_node(
      op::kConstant, {},
      {{"data", std::string("0000803f00000040")}, {"dtype", kF32}, {"shape", std::vector<std::int64_t>{2}}});
  const Value folded = b.mul(uneven, b.fill(3, kF32, {2}));
  b.output("y", b.add(b.mul(x, splat), folded));
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  const Graph after = *run_pass("fold", g);
  EXPECT_EQ(count_ops(after, "tanh"), 0);
  const Node& now = after.node(after.node(after.find_output("y")->node).inputs[1].node);
  EXPECT_EQ(now.def->name, "constant");
  EXPECT_EQ(now.attrs.get_text("data"), "000040400000c040") << "3 and 6";
  EXPECT_EQ(now.name, g.node(folded.node).name);
  const Feeds feeds{{"x", Tensor::from<float>(std::vector{1.0F, 2.0F, 3.0F, 4.0F}, {2, 2})}};
  expect_same_results(after, g, feeds, 0, "fold");
}

TEST(Fold, WhatIsLargeRandomOrAReductionStays) {
  Graph g;
  Builder b(g);
  const Value big = b.tanh(b.fill(0.5, kF32, {2000}));
  const Value sum = b.sum(b.fill(0.1, kF32, {100}));  // fast kernels may add in another order
  b.output("big", big);
  b.output("sum", sum);
  EXPECT_EQ(run_pass("fold", g)->to_text(), g.to_text());
  EXPECT_EQ(count_ops(*run_pass("fold", g, {.fold_bytes = 8000}), "tanh"), 0);
}

TEST(Fold, ValuesThatNoDoubleHoldsStayExact) {
  Graph g;
  Builder b(g);
  const std::int64_t odd = (std::int64_t{1} << 60) + 1;
  Bytes bytes;
  append_le(bytes, odd);
  const Value c =
      b.add_node(op::kConstant, {},
                 {{"data", to_hex(bytes)}, {"dtype", DType::kI64}, {"shape", std::vector<std::int64_t>{}}});
  b.output("y", b.add_node(op::kNeg, {c}));
  const Graph after = *run_pass("fold", g);
  EXPECT_EQ(count_ops(after, "neg"), 0);
  EXPECT_EQ(count_ops(after, "constant"), 2);
  EXPECT_EQ(interpret_output(after, {}, "y").values<std::int64_t>()[0], -odd);
}

}  // namespace
}  // namespace trireme::graph
