// The tools that prove layout rules, on a rule of their own.
#include "tests/conformance/cut_run.h"

#include "tests/conformance/harness.h"
#include "tests/conformance/parts.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {

using Ints = std::vector<std::int64_t>;

Tensor numbers(Ints values) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kI64, {static_cast<std::int64_t>(values.size())}});
  std::copy(values.begin(), values.end(), t.values<std::int64_t>().begin());
  return t;
}
Ints ints_of(const Tensor& t) {
  const auto values = t.values<std::int64_t>();
  return {values.begin(), values.end()};
}

TEST(Parts, TogetherGiveTheWhole) {
  const Tensor whole = random_real({DType::kF64, {12, 5}}, 3);
  for (const AxisCut cut : {AxisCut(kReplicate), AxisCut(kPartial), AxisCut(kPartialMax), AxisCut(0),
                            AxisCut(1), AxisCut(0, 2), AxisCut(0, 1, 4), AxisCut(0, 3, 2)}) {
    for (const int num_parts : {2, 3}) {
      const auto parts = parts_of(whole, cut, num_parts, /*key=*/1);
      ASSERT_EQ(parts.size(), static_cast<std::size_t>(num_parts));
      expect_close(to_doubles(joined(parts, cut, whole.type())), to_doubles(whole), 1e-14, cut.to_text());
    }
  }
}

TEST(Parts, OfBlocksAndUnitsAreTheFirstOnesOfEveryBlock) {
  const Tensor whole = numbers({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const auto blocks = parts_of(whole, AxisCut(0, 2), 4, 0);
  EXPECT_EQ(ints_of(blocks[0]), (Ints{0, 1, 6, 7}));
  EXPECT_EQ(ints_of(blocks[3]), (Ints{5, 11}));
  const auto units = parts_of(whole, AxisCut(0, 1, 4), 2, 0);
  EXPECT_EQ(ints_of(units[0]), (Ints{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(ints_of(units[1]), (Ints{8, 9, 10, 11}));
}

// y[i] = x[i-1] + x[i+1] + max(x) + the first index of the part that has i; 100 beyond the ends.
Result<std::vector<Value>> cut_neighbors(CutBuilder& b) {
  const Value x = b.input(0);
  const std::int64_t size = b.whole_input(0).shape[0], own = b.type(x).shape[0];
  Ints begins = part_begins(size, b.num_parts()), ends = begins;
  for (std::size_t p = 0; p < begins.size(); ++p) ends[p] += part_sizes(size, b.num_parts())[p] + 1;
  for (std::int64_t& begin : begins) --begin;
  const Value wide = b.window(x, 0, size, begins, ends, 100);
  const Value left = b.add(kSlice, {wide}, {{"begin", Ints{0}}, {"end", Ints{own}}});
  const Value right = b.add(kSlice, {wide}, {{"begin", Ints{2}}, {"end", Ints{own + 2}}});
  const Value top = b.reduce(b.add(kMax, {x}), kPartialMax);
  const Value sum = b.add(kAdd, {b.add(kAdd, {left, right}), b.add(kAdd, {top, b.begin_of(size)})});
  return std::vector{sum};
}

OpDef rule_of(Result<std::vector<Value>> (*cut)(CutBuilder&)) {
  OpDef def = kNeg;  // any op of one input
  def.cut = cut;
  return def;
}

CutCall call_of(const OpDef& def, const Attrs& attrs, std::int64_t size, int num_parts) {
  const TensorType type{DType::kI64, {size}};
  return {def, attrs, {type}, {type}, {{0}, {0}, /*rewritten=*/true}, num_parts};
}

TEST(CutRun, RunsAllPositionsInLockStep) {
  const OpDef def = rule_of(cut_neighbors);
  const Attrs none;
  const Tensor x = numbers({1, 2, 3, 40, 5});
  const auto parts = parts_of(x, 0, 2, 0);
  const auto out = run_cut(call_of(def, none, 5, 2), {{parts[0]}, {parts[1]}});
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  EXPECT_EQ(ints_of((*out)[0][0]), (Ints{100 + 2 + 40, 1 + 3 + 40, 2 + 40 + 40}));
  EXPECT_EQ(ints_of((*out)[1][0]), (Ints{3 + 5 + 40 + 3, 40 + 100 + 40 + 3}));
}

// A rule that bakes the position into an attribute instead of asking begin_of.
Result<std::vector<Value>> cut_by_position(CutBuilder& b) {
  const Value at =
      b.add(kFill, {}, {{"value", 1.0 * b.position()}, {"dtype", DType::kI64}, {"shape", Ints{}}});
  return std::vector{b.add(kAdd, {b.input(0), at})};
}
Result<std::vector<Value>> cut_first_only(CutBuilder& b) {
  return std::vector{b.position() == 0 ? b.add(kNeg, {b.input(0)}) : b.input(0)};
}

TEST(CutRun, RefusesProgramsThatPositionsCannotShare) {
  const Attrs none;
  const auto parts = parts_of(numbers({1, 2, 3, 4}), 0, 2, 0);
  const OpDef by_position = rule_of(cut_by_position);
  const auto a = run_cut(call_of(by_position, none, 4, 2), {{parts[0]}, {parts[1]}});
  EXPECT_NE(a.status().to_string().find("other attributes"), std::string::npos);
  const OpDef first_only = rule_of(cut_first_only);
  const auto b = run_cut(call_of(first_only, none, 4, 2), {{parts[0]}, {parts[1]}});
  EXPECT_NE(b.status().to_string().find("differ in more than sizes"), std::string::npos);
}

std::int64_t most_units(const std::vector<AxisCut>& cuts, const std::vector<TensorType>& types) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < cuts.size(); ++i)
    if (cuts[i].cuts()) most = std::max(most, types[i].shape[cuts[i].dim] / (cuts[i].blocks * cuts[i].unit));
  return most;
}

// A part needs an index for its rule to be proved, so some case must have enough of them.
TEST(OpTable, EveryRewriteIsProvedOverThreePositions) {
  for (const OpDef* def : op_table()) {
    if (def->cut == nullptr) continue;
    std::int64_t most = 0;
    for (const OpCase& c : op_cases()) {
      if (c.def != def) continue;
      const auto types = types_of(make_inputs(c, DType::kF64));
      const Attrs attrs = *complete_attrs(*def, c.attrs);
      const auto out = *infer_types(*def, types, attrs);
      for (const LayoutOption& o : def->layout(types, attrs))
        if (o.rewritten) most = std::max({most, most_units(o.inputs, types), most_units(o.outputs, out)});
    }
    EXPECT_GE(most, 3) << def->name;
  }
}

}  // namespace
}  // namespace trireme::op::testing
