// Feeds, messages and resources: types, gradients' cuts and errors. They have no kernels here.
#include <gtest/gtest.h>

#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {
using Ints = std::vector<std::int64_t>;

std::vector<TensorType> inferred(const OpDef& def, std::vector<TensorType> in, const Attrs& attrs) {
  const auto out = infer_types(def, in, attrs);
  TR_CHECK(out.ok(), "{}", out.status().to_string());
  return *out;
}
std::string refused(const OpDef& def, std::vector<TensorType> in, const Attrs& attrs) {
  return infer_types(def, in, attrs).status().message();
}
std::vector<LayoutOption> cuts(const OpDef& def, std::vector<TensorType> in, const Attrs& attrs) {
  return def.layout(in, *complete_attrs(def, attrs));
}
const TensorType kMatrix{DType::kF32, {6, 4}};

TEST(HostOps, StateTheTypeOfWhatComesFromOutside) {
  const Attrs stated{{"dtype", DType::kI64}, {"shape", Ints{2, 0}}};
  for (const auto& [def, name] :
       {std::pair{&kInput, "name"}, {&kVariable, "name"}, {&kDequeue, "name"}, {&kRestore, "path"}}) {
    Attrs attrs = stated;
    attrs.set(name, std::string("a"));
    EXPECT_EQ(inferred(*def, {}, attrs)[0], (TensorType{DType::kI64, {2, 0}})) << def->name;
    EXPECT_EQ(def->shape_attr, "shape") << def->name;
    EXPECT_EQ(cuts(*def, {}, attrs).size(), 2U) << def->name;
    attrs.set(name, std::string());
    EXPECT_NE(refused(*def, {}, attrs).find("got an empty text"), std::string::npos) << def->name;
  }
}

TEST(HostOps, RefuseImpossibleShapesAndPeers) {
  EXPECT_NE(refused(kRecv, {}, {{"peer", std::int64_t{0}}, {"shape", Ints{-1}}}).find("attribute 'shape'"),
            std::string::npos);
  EXPECT_EQ(refused(kSend, {kMatrix}, {{"peer", std::int64_t{-1}}}),
            "[op send] attribute 'peer': got -1, expected at least 0");
  EXPECT_EQ(refused(kReduceScatter, {kMatrix}, {{"world", std::int64_t{4}}}),
            "[op reduce_scatter] x: got f32[6, 4], expected dimension 0 to be a multiple of 4 ranks");
}

TEST(HostOps, CutBesideTheDimensionOfTheRanks) {
  const Attrs world{{"world", std::int64_t{3}}};
  for (const OpDef* def : {&kAllgather, &kReduceScatter}) {
    const auto options = cuts(*def, {kMatrix}, world);
    ASSERT_EQ(options.size(), 1U) << def->name;
    EXPECT_EQ(options[0].inputs, std::vector<int>{1});
    EXPECT_EQ(options[0].outputs, std::vector<int>{1});
  }
  EXPECT_EQ(cuts(kAllreduce, {kMatrix}, {}).size(), 2U);
}

TEST(HostOps, TokensOfPiecesAddUp) {
  for (const auto& [def, attrs] : {std::pair{&kSend, Attrs{{"peer", std::int64_t{1}}}},
                                   {&kEnqueue, Attrs{{"name", std::string("q")}}},
                                   {&kSave, Attrs{{"path", std::string("f")}}}}) {
    EXPECT_EQ(inferred(*def, {kMatrix}, attrs)[0], (TensorType{DType::kI64, {}})) << def->name;
    for (const LayoutOption& o : cuts(*def, {kMatrix}, attrs))
      EXPECT_EQ(o.outputs, std::vector<int>{kPartial});
  }
}

}  // namespace
}  // namespace trireme::op::testing
