// Ops that move elements.
#include <utility>

#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

namespace {
void add_shapes(std::vector<OpCase>& t) {
  t.push_back({&kReshape, "keeps the batch", {{kReal, {4, 2, 3}}}, one("shape", Ints{4, -1})});
  t.push_back({&kReshape, "into heads", {{kReal, {2, 3, 12}}}, one("shape", Ints{2, 3, 4, 3})});
  t.push_back({&kReshape, "out of heads", {{kReal, {2, 4, 6}}}, one("shape", Ints{2, 24})});
  t.push_back({&kReshape, "merges the batch", {{kReal, {3, 4, 5}}}, one("shape", Ints{12, 5})});
  t.push_back({&kReshape, "with ones", {{kReal, {1, 6, 1, 2}}}, one("shape", Ints{6, 1, 2, 1})});
  t.push_back({&kReshape, "all new", {{kReal, {4, 3}}}, one("shape", Ints{2, 6})});
  t.push_back({&kReshape, "to scalar", {{kReal, {1, 1}}}, one("shape", Ints{})});
  t.push_back({&kReshape, "empty", {{kReal, {0, 6}}}, one("shape", Ints{0, 2, 3})});
  t.push_back({&kTranspose, "matrix", {{kReal, {3, 4}}}});
  t.push_back({&kTranspose, "rotation", {{kReal, {2, 3, 4}}}, one("order", Ints{2, 0, 1})});
  t.push_back({&kTranspose, "scalar", {{kReal, {}}}});
  t.push_back({&kTranspose, "bytes", {{kBytes, {2, 5}}}});
  t.push_back({&kTile, "matrix", {{kReal, {2, 3}}}, one("times", Ints{3, 2})});
  t.push_back({&kTile, "one dimension", {{kReal, {2, 3, 2}}}, one("times", Ints{1, 2, 1})});
  t.push_back({&kTile, "none left", {{kReal, {2, 3}}}, one("times", Ints{1, 0})});
  t.push_back({&kTile, "scalar", {{kReal, {}}}, one("times", Ints{})});
  t.push_back({&kReverse, "all", {{kReal, {3, 4}}}});
  t.push_back({&kReverse, "last", {{kReal, {2, 3, 4}}}, one("axes", Ints{-1})});
  t.push_back({&kReverse, "empty", {{kReal, {0, 3}}}, one("axes", Ints{0})});
  t.push_back({&kCumsum, "last", {{kReal, {3, 4}}}});
  t.push_back(
      {&kCumsum, "first backwards", {{kReal, {3, 4}}}, {{"axis", std::int64_t{0}}, {"reverse", true}}});
  t.push_back({&kCumsum, "empty", {{kReal, {2, 0}}}});
}

Attrs box(Ints begin, Ints end, Ints step = {}) {
  return {{"begin", std::move(begin)}, {"end", std::move(end)}, {"step", std::move(step)}};
}
Attrs box_of(Ints shape, Attrs attrs) {
  attrs.set("shape", std::move(shape));
  return attrs;
}
Attrs border(Ints low, Ints high, double value) {
  return {{"low", std::move(low)}, {"high", std::move(high)}, {"value", value}};
}

void add_parts(std::vector<OpCase>& t) {
  t.push_back({&kConcat, "first", {{kReal, {2, 3}}, {kReal, {1, 3}}, {kReal, {3, 3}}}});
  t.push_back({&kConcat, "last", {{kReal, {2, 3}}, {kReal, {2, 1}}}, one("axis", std::int64_t{-1})});
  t.push_back(
      {&kConcat, "equal", {{kReal, {2, 4}}, {kReal, {2, 4}}, {kReal, {2, 4}}}, one("axis", std::int64_t{1})});
  t.push_back({&kConcat, "one", {{kReal, {2, 3}}}});
  t.push_back({&kConcat, "with nothing", {{kReal, {0, 3}}, {kReal, {2, 3}}, {kReal, {0, 3}}}});
  t.push_back({&kSplit, "first", {{kReal, {6, 3}}}, one("sizes", Ints{2, 1, 3})});
  t.push_back({&kSplit, "last", {{kReal, {3, 4}}}, {{"axis", std::int64_t{-1}}, {"sizes", Ints{3, 1}}}});
  t.push_back({&kSplit, "equal", {{kReal, {2, 12}}}, {{"axis", std::int64_t{-1}}, {"sizes", Ints{4, 4, 4}}}});
  t.push_back({&kSplit, "an empty piece", {{kReal, {2, 3}}}, one("sizes", Ints{2, 0})});
  const auto slice = [&t](std::string note, Shape x, const Attrs& attrs) {
    t.push_back({.def = &kSlice,
                 .note = std::move(note),
                 .inputs = {{kReal, x}},
                 .attrs = attrs,
                 .reads_part = true});
  };
  slice("inner box", {4, 5}, box({1, 0}, {3, 4}));
  slice("steps", {7, 5}, box({1, 0}, {0, 0}, {2, 3}));
  slice("from the end", {4, 5}, box({-3, 0}, {-1, 0}));
  slice("clipped", {3, 4}, box({0, 2}, {9, 9}));
  slice("nothing", {3, 4}, box({3, 0}, {0, 0}));
  slice("second block", {2, 12}, box({0, 4}, {0, 8}));
  slice("scalar", {}, box({}, {}));
  t.push_back({&kSliceGrad, "inner box", {{kReal, {2, 4}}}, box_of({4, 5}, box({1, 0}, {3, 4}))});
  t.push_back({&kSliceGrad, "steps", {{kReal, {3, 5}}}, box_of({7, 5}, box({1, 0}, {0, 0}, {2, 1}))});
  t.push_back({&kSliceGrad, "second block", {{kReal, {2, 4}}}, box_of({2, 12}, box({0, 4}, {0, 8}))});
  t.push_back({&kSliceGrad, "nothing", {{kReal, {0, 4}}}, box_of({3, 4}, box({3, 0}, {0, 0}))});
  t.push_back({&kPad, "both sides", {{kReal, {2, 3}}}, border({1, 0}, {0, 2}, 1)});
  t.push_back({&kPad, "middle", {{kReal, {2, 3, 2}}}, border({0, 1, 0}, {0, 1, 0}, 0)});
  t.push_back({&kPad, "nothing", {{kReal, {0, 3}}}, border({1, 0}, {1, 0}, 0)});
}

void add_indexed(std::vector<OpCase>& t) {
  const auto axis = [](std::int64_t d) { return one("axis", d); };
  const auto rows = [](std::int64_t d, Ints shape) {
    return Attrs{{"axis", d}, {"shape", std::move(shape)}};
  };
  const auto gather = [&t](std::string note, std::vector<Input> in, const Attrs& attrs) {
    t.push_back({.def = &kGather,
                 .note = std::move(note),
                 .inputs = std::move(in),
                 .attrs = attrs,
                 .reads_part = true});
  };
  gather("rows", {{kReal, {5, 3}}, {kLabels, {4}}}, {});
  gather("columns, i32", {{kReal, {3, 5}}, {kLabels32, {2, 3}}}, axis(-1));
  gather("middle", {{kReal, {2, 4, 3}}, {kLabels, {5}}}, axis(1));
  gather("one row", {{kReal, {4, 3}}, {kLabels, {}}}, {});
  gather("some out of range", {{kReal, {2, 3}}, {kInts, {9}}}, {});
  gather("of nothing", {{kReal, {0, 3}}, {kLabels, {2}}}, {});
  gather("no index", {{kReal, {4, 3}}, {kLabels, {0}}}, {});
  t.push_back({&kScatterAdd, "rows", {{kReal, {6, 3}}, {kLabels, {6}}}, rows(0, {4, 3})});
  t.push_back({&kScatterAdd, "columns, i32", {{kReal, {3, 2, 3}}, {kLabels32, {2, 3}}}, rows(-1, {3, 5})});
  t.push_back({&kScatterAdd, "middle", {{kReal, {2, 5, 3}}, {kLabels, {5}}}, rows(1, {2, 4, 3})});
  t.push_back({&kScatterAdd, "one row", {{kReal, {3}}, {kLabels, {}}}, rows(0, {4, 3})});
  t.push_back({.def = &kScatterAdd,
               .note = "some out of range",
               .inputs = {{kReal, {9, 2}}, {kInts, {9}}},
               .attrs = rows(0, {3, 2}),
               .skips_work = true});
  t.push_back({&kScatterAdd, "no index", {{kReal, {0, 3}}, {kLabels, {0}}}, rows(0, {4, 3})});
  t.push_back({&kOneHot, "rows", {{kLabels, {5}}}, one("depth", std::int64_t{4})});
  t.push_back({&kOneHot,
               "some out of range",
               {{kInts32, {2, 3}}},
               {{"depth", std::int64_t{3}}, {"dtype", DType::kI64}}});
  t.push_back({&kOneHot, "no class", {{kLabels, {3}}}, one("depth", std::int64_t{0})});
}

void add_made(std::vector<OpCase>& t) {
  t.push_back({&kFill, "floats", {}, {{"value", 1.5}, {"dtype", DType::kF64}, {"shape", Ints{3, 2}}}});
  t.push_back({&kFill, "integers", {}, {{"value", 7.0}, {"dtype", DType::kI64}, {"shape", Ints{}}}});
  t.push_back({&kFill, "empty", {}, one("shape", Ints{0})});
  t.push_back({&kBroadcastTo, "row", {{kReal, {4}}}, one("shape", Ints{3, 4})});
  t.push_back({&kBroadcastTo, "column", {{kReal, {2, 3, 1}}}, one("shape", Ints{2, 3, 5})});
  t.push_back({&kBroadcastTo, "scalar", {{kReal, {}}}, one("shape", Ints{2, 2})});
  t.push_back({&kBroadcastTo, "to empty", {{kReal, {1, 3}}}, one("shape", Ints{0, 3})});
  t.push_back({&kCount, "all", {{kReal, {3, 4}}}});
  t.push_back({&kCount, "one axis", {{kReal, {3, 4}}}, one("axes", Ints{1})});
  t.push_back({&kConstant, "pair", {}, {{"data", std::string("0000803f000000c0")}, {"shape", Ints{2}}}});
  t.push_back({&kStopGradient, "integers", {{kInts, {3, 2}}}});
  t.push_back({&kStopGradient, "bools", {{kBools, {4}}}});
  t.push_back({&kRange, "integers", {}, one("limit", 7.0)});
  t.push_back(
      {&kRange, "floats", {}, {{"start", 2.5}, {"limit", -1.0}, {"step", -0.5}, {"dtype", DType::kF64}}});
  t.push_back({&kRange, "nothing", {}, one("limit", -1.0)});
  for (const OpDef* d : {&kFillLike, &kShape, &kRank, &kSize}) {
    t.push_back({d, "matrix", {{kReal, {3, 4}}}});
    t.push_back({d, "scalar", {{kReal, {}}}});
    t.push_back({d, "empty", {{kReal, {0, 2}}}});
  }
  t.push_back(
      {&kPartBegin, "uneven", {{kLabels, {}}}, {{"size", std::int64_t{7}}, {"parts", std::int64_t{4}}}});
  t.push_back({.def = &kTakePart,
               .note = "rows",
               .inputs = {{kReal, {8, 3}}, {kLabels, {}}},
               .attrs = one("parts", std::int64_t{4}),
               .reads_part = true});
  t.push_back({.def = &kTakePart,
               .note = "uneven columns",
               .inputs = {{kReal, {2, 7, 3}}, {kLabels, {}}},
               .attrs = {{"dim", std::int64_t{1}},
                         {"parts", std::int64_t{4}},
                         {"sizes", Ints{2, 2, 2, 1}},
                         {"extent", std::int64_t{2}}},
               .reads_part = true});
  t.push_back({&kFillLike, "bools", {{kBools, {4}}}, one("value", 1.0)});
}
}  // namespace

void add_array(std::vector<OpCase>& t) {
  add_shapes(t);
  add_parts(t);
  add_indexed(t);
  add_made(t);
}

}  // namespace trireme::op::testing
