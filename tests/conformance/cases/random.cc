// Random ops.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {
using enum Fill;

void add_dropout(std::vector<OpCase>& t) {
  const Attrs half{{"rate", 0.5}, {"stream", std::int64_t{3}}};
  OpCase images{&kDropout, "images", {{kReal, {4, 2, 3}}, {kInts, {}}, {kInts, {}}, {kIds, {4}}}, half};
  images.skips_work = true;  // only what is kept is divided
  t.push_back(images);
  t.push_back({&kDropout,
               "rate zero",
               {{kReal, {4, 3}}, {kInts, {}}, {kInts, {}}, {kIds, {4}}},
               {{"rate", 0.0}, {"stream", std::int64_t{0}}}});
  t.push_back({.def = &kDropout,
               .note = "uneven sizes",
               .inputs = {{kReal, {3, 5, 4, 7}}, {kInts, {}}, {kInts, {}}, {kIds, {3}}},
               .attrs = half,
               .skips_work = true});
  t.push_back({&kDropout, "no samples", {{kReal, {0, 3}}, {kInts, {}}, {kInts, {}}, {kIds, {0}}}, half});
}

void add_dropout_parts(std::vector<OpCase>& t) {
  const auto add = [&](const std::string& note, const Shape& x, Ints whole, std::int64_t dim, double rate) {
    t.push_back({.def = &kDropoutPart,
                 .note = note,
                 .inputs = {{kReal, x}, {kInts, {}}, {kInts, {}}, {kIds, {x[0]}}, {kInts, {}}},
                 .attrs = {{"rate", rate}, {"stream", std::int64_t{3}}, {"whole", whole}, {"dim", dim}},
                 .skips_work = true});
  };
  add("of rows", {4, 2, 3}, {7, 3}, 1, 0.5);
  add("of columns", {3, 5, 2}, {5, 9}, 2, 0.5);
  add("longer runs", {2, 3, 70, 2}, {3, 150, 2}, 2, 0.25);
  add("all of it", {3, 4}, {4}, 1, 0.0);
  add("no samples", {0, 3}, {5}, 1, 0.5);
  add("no elements", {2, 0}, {5}, 1, 0.5);
}
}  // namespace

void add_random(std::vector<OpCase>& t) {
  add_dropout(t);
  add_dropout_parts(t);
  const auto numbers = [](Ints shape, DType dtype) {
    return Attrs{{"stream", std::int64_t{3}}, {"shape", std::move(shape)}, {"dtype", dtype}};
  };
  for (const OpDef* d : {&kUniform, &kNormal, &kBernoulli}) {
    t.push_back({d, "rows", {{kInts, {}}, {kInts, {}}, {kIds, {4}}}, numbers({2, 3}, DType::kF32)});
    t.push_back({d, "scalars", {{kInts, {}}, {kInts, {}}, {kIds, {5}}}, numbers({}, DType::kF64)});
    t.push_back({d, "halves", {{kInts, {}}, {kInts, {}}, {kIds, {1}}}, numbers({7}, DType::kBF16)});
    t.push_back({d, "no samples", {{kInts, {}}, {kInts, {}}, {kIds, {0}}}, numbers({3}, DType::kF16)});
    t.push_back({d, "no elements", {{kInts, {}}, {kInts, {}}, {kIds, {2}}}, numbers({0}, DType::kF32)});
  }
  for (const std::int64_t n : {0, 1, 7}) {
    t.push_back({&kPermutation,
                 fmt::format("of {}", n),
                 {{kInts, {}}, {kInts, {}}},
                 {{"n", n}, {"stream", std::int64_t{1}}}});
  }
  const Attrs forth{{"stream", std::int64_t{2}}}, back{{"stream", std::int64_t{2}}, {"inverse", true}};
  t.push_back({&kShuffle, "images", {{kReal, {5, 2, 3}}, {kInts, {}}, {kInts, {}}}, forth});
  t.push_back({&kShuffle, "inverse", {{kReal, {5, 2}}, {kInts, {}}, {kInts, {}}}, back});
  t.push_back({&kShuffle, "one row", {{kReal, {1}}, {kInts, {}}, {kInts, {}}}, forth});
  t.push_back({&kShuffle, "no rows", {{kReal, {0, 3}}, {kInts, {}}, {kInts, {}}}, forth});
  t.push_back({&kShuffle, "empty rows", {{kReal, {3, 0}}, {kInts, {}}, {kInts, {}}}, forth});
}

}  // namespace trireme::op::testing
