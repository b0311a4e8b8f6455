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

Attrs pieces(std::int64_t world, std::int64_t dim, Ints sizes = {}, std::int64_t extent = -1) {
  Attrs attrs{{"world", world}, {"dim", dim}, {"sizes", std::move(sizes)}};
  if (extent >= 0) attrs.set("extent", extent);
  return attrs;
}

TEST(HostOps, GatherAndScatterPiecesAlongAnyDimension) {
  EXPECT_EQ(inferred(kAllgather, {kMatrix}, pieces(3, 0))[0].shape, (Shape{18, 4}));
  EXPECT_EQ(inferred(kAllgather, {kMatrix}, pieces(3, 1))[0].shape, (Shape{6, 12}));
  EXPECT_EQ(inferred(kAllgather, {kMatrix}, pieces(3, -2))[0].shape, (Shape{18, 4}));
  EXPECT_EQ(inferred(kReduceScatter, {kMatrix}, pieces(3, 0))[0].shape, (Shape{2, 4}));
  EXPECT_EQ(inferred(kReduceScatter, {kMatrix}, pieces(2, -1))[0].shape, (Shape{6, 2}));
  EXPECT_EQ(refused(kReduceScatter, {kMatrix}, pieces(3, 1)),
            "[op reduce_scatter] x: got f32[6, 4], expected dimension 1 to be a multiple of 3 ranks");
  for (const OpDef* def : {&kAllgather, &kReduceScatter})
    EXPECT_NE(refused(*def, {kMatrix}, pieces(2, 2)).find("attribute 'dim': got 2"), std::string::npos);
}

TEST(HostOps, GatherAndScatterPiecesOfAnySize) {
  EXPECT_EQ(inferred(kAllgather, {kMatrix}, pieces(3, 1, {1, 4, 0}))[0].shape, (Shape{6, 5}));
  EXPECT_EQ(inferred(kReduceScatter, {kMatrix}, pieces(3, 1, {3, 1, 0}, 3))[0].shape, (Shape{6, 3}));
  EXPECT_EQ(inferred(kReduceScatter, {kMatrix}, pieces(3, 1, {3, 1, 0}, 0))[0].shape, (Shape{6, 0}));

  EXPECT_EQ(refused(kAllgather, {kMatrix}, pieces(2, 1, {1, 5})),
            "[op allgather] dimension 1 of x: got 4, expected one of the sizes 1, 5");
  EXPECT_EQ(refused(kAllgather, {kMatrix}, pieces(3, 1, {4, 4})),
            "[op allgather] attribute 'sizes': got 2 sizes, expected one for each of 3 ranks");
  EXPECT_NE(refused(kAllgather, {kMatrix}, pieces(2, 1, {4, -1})).find("sizes of 0 or more"),
            std::string::npos);
  EXPECT_EQ(refused(kReduceScatter, {kMatrix}, pieces(2, 1, {3, 2}, 3)),
            "[op reduce_scatter] x: got f32[6, 4], expected dimension 1 to be the sum of the sizes, 5");
  EXPECT_EQ(refused(kReduceScatter, {kMatrix}, pieces(2, 1, {3, 1})),
            "[op reduce_scatter] attribute 'extent': got -1, expected one of the sizes 3, 1");
  EXPECT_EQ(refused(kReduceScatter, {kMatrix}, pieces(2, 1, {}, 2)),
            "[op reduce_scatter] attribute 'extent': got 2, expected -1 where there are no sizes");
}

const Attrs kTurned{{"world", std::int64_t{2}}, {"from", std::int64_t{0}}, {"to", std::int64_t{1}}};

TEST(HostOps, TurnACutIntoAnother) {
  EXPECT_EQ(inferred(kAllToAll, {kMatrix}, kTurned)[0].shape, (Shape{12, 2}));
  Attrs uneven = kTurned;
  uneven.set("sizes_from", Ints{6, 5});
  uneven.set("sizes_to", Ints{3, 1});
  uneven.set("extent", std::int64_t{1});
  EXPECT_EQ(inferred(kAllToAll, {kMatrix}, uneven)[0].shape, (Shape{11, 1}));
  EXPECT_TRUE(cuts(kAllToAll, {kMatrix}, kTurned).size() == 1) << "partial sums alone";

  Attrs same = kTurned;
  same.set("to", std::int64_t{-2});
  EXPECT_EQ(refused(kAllToAll, {kMatrix}, same),
            "[op all_to_all] attribute 'to': got 0, expected another dimension than 'from'");
  uneven.set("extent", std::int64_t{2});
  EXPECT_EQ(refused(kAllToAll, {kMatrix}, uneven),
            "[op all_to_all] attribute 'extent': got 2, expected one of the sizes 3, 1");
  uneven.set("sizes_from", Ints{7, 5});
  EXPECT_EQ(refused(kAllToAll, {kMatrix}, uneven),
            "[op all_to_all] dimension 0 of x: got 6, expected one of the sizes 7, 5");
}

TEST(HostOps, TakeWindowsOfACutDimension) {
  Attrs windows{{"world", std::int64_t{2}}, {"begins", Ints{-1, 5}}, {"ends", Ints{7, 12}}};
  windows.set("extent", std::int64_t{8});
  EXPECT_EQ(inferred(kHaloExchange, {kMatrix}, windows)[0].shape, (Shape{8, 4}));
  EXPECT_EQ(cuts(kHaloExchange, {kMatrix}, windows).back().inputs, std::vector<AxisCut>{kPartial});
  windows.set("fill", 1.0);
  EXPECT_EQ(cuts(kHaloExchange, {kMatrix}, windows).back().inputs, std::vector<AxisCut>{1});

  windows.set("extent", std::int64_t{6});
  EXPECT_EQ(refused(kHaloExchange, {kMatrix}, windows),
            "[op halo_exchange] attribute 'extent': got 6, expected one of the windows' extents 8, 7");
  windows.set("ends", Ints{7, 4});
  EXPECT_EQ(refused(kHaloExchange, {kMatrix}, windows),
            "[op halo_exchange] attribute 'ends': got 4 for rank 1, expected at least its begin, 5");
  windows.set("begins", Ints{0});
  EXPECT_EQ(refused(kHaloExchange, {kMatrix}, windows),
            "[op halo_exchange] attribute 'begins': got 1 indices, expected one for each of 2 ranks");
}

TEST(HostOps, ReduceBySumOrMaximum) {
  const Attrs largest{{"reduction", std::string("max")}};
  EXPECT_EQ(inferred(kAllreduce, {kMatrix}, largest)[0], kMatrix);
  EXPECT_EQ(cuts(kAllreduce, {kMatrix}, largest).back().outputs, std::vector<AxisCut>{kPartialMax});
  EXPECT_EQ(refused(kAllreduce, {kMatrix}, {{"reduction", std::string("mean")}}),
            "[op allreduce] attribute 'reduction': got 'mean', expected sum or max");
}

TEST(HostOps, CutBesideTheDimensionOfTheRanks) {
  for (const OpDef* def : {&kAllgather, &kReduceScatter})
    for (const int dim : {0, 1, -1}) {
      const auto options = cuts(*def, {kMatrix}, pieces(2, dim));
      ASSERT_EQ(options.size(), 2U) << def->name;
      EXPECT_EQ(options[1].outputs, std::vector<AxisCut>{kPartial});
      EXPECT_EQ(options[0].inputs, std::vector<AxisCut>{dim == 0 ? 1 : 0});
      EXPECT_EQ(options[0].outputs, std::vector<AxisCut>{dim == 0 ? 1 : 0});
    }
  EXPECT_EQ(cuts(kAllreduce, {kMatrix}, {}).size(), 3U);
}

TEST(HostOps, TokensOfPiecesAddUp) {
  for (const auto& [def, attrs] : {std::pair{&kSend, Attrs{{"peer", std::int64_t{1}}}},
                                   {&kEnqueue, Attrs{{"name", std::string("q")}}},
                                   {&kSave, Attrs{{"path", std::string("f")}}}}) {
    EXPECT_EQ(inferred(*def, {kMatrix}, attrs)[0], (TensorType{DType::kI64, {}})) << def->name;
    for (const LayoutOption& o : cuts(*def, {kMatrix}, attrs))
      EXPECT_EQ(o.outputs, std::vector<AxisCut>{kPartial});
  }
}

}  // namespace
}  // namespace trireme::op::testing
