// Who holds what, for random meshes and layouts and for state of logical shards.
#include "trireme/parallel/holdings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace trireme::parallel {
namespace {

const Mesh kMesh{{{kDataAxis, 2}, {kModelAxis, 3}}};

StateTensor tensor(std::string name, Shape shape, const std::string& layout) {
  StateTensor t;
  t.name = std::move(name);
  t.whole = {DType::kF32, shape};
  t.layout = *Layout::parse(layout);
  return t;
}

std::vector<Piece> pieces_in(const std::vector<FirstHeld>& held) {
  std::vector<Piece> out;
  for (const FirstHeld& h : held) out.push_back(h.piece);
  return out;
}

Holdings example() {
  Holdings h;
  h.mesh = kMesh;
  h.tensors = {tensor("a", {5, 4}, "replicate shard(0)"),    tensor("b", {7}, "flat replicate"),
               tensor("c", {2, 12}, "replicate shard(1,2)"), tensor("d", {3}, "replicate replicate"),
               tensor("e", {4, 6}, "flat shard(1)"),         tensor("f", {0, 3}, "shard(0) flat")};
  StateTensor rows = tensor("shard/x", {3, 4}, "replicate replicate");
  rows.rows = {{0, 1}, {1, 2}};
  h.tensors.push_back(rows);
  StateTensor cut_rows = tensor("shard/y", {3, 8}, "replicate shard(1)");
  cut_rows.rows = {{0, 2}, {2, 1}};
  h.tensors.push_back(cut_rows);
  StateTensor only = tensor("z", {2}, "replicate replicate");
  only.only_rank = 4;
  h.tensors.push_back(only);
  return h;
}

TEST(Holdings, EveryElementHasOneFirstHolder) {
  const Holdings h = example();
  ASSERT_TRUE(check_holdings(h).ok()) << check_holdings(h).to_string();
  for (std::size_t t = 0; t < h.tensors.size(); ++t) {
    const Status whole = check_cover(pieces_in(distinct_pieces(h, t)));
    EXPECT_TRUE(whole.ok()) << h.tensors[t].name << ": " << whole.to_string();
  }
  const std::vector<FirstHeld> all = distinct_pieces(h);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(a.tensor, a.rank) < std::pair(b.tensor, b.rank);
  }));
}

TEST(Holdings, RanksThatHoldTheSameAreThoseThatDifferAlongAxesThatDoNotCut) {
  const Holdings h = example();
  for (std::size_t t = 0; t < h.tensors.size(); ++t)
    for (int rank = 0; rank < 6; ++rank) {
      if (pieces_held(h, t, rank).empty()) continue;
      for (const int other : holders(h, t, rank))
        EXPECT_EQ(pieces_held(h, t, other), pieces_held(h, t, rank)) << h.tensors[t].name;
    }
  EXPECT_EQ(holders(h, 0, 4), (std::vector<int>{1, 4}));
  EXPECT_EQ(holders(h, 1, 4), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(holders(h, 4, 4), (std::vector<int>{4}));
  EXPECT_EQ(holders(h, 6, 5), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(holders(h, 7, 4), (std::vector<int>{4}));
  EXPECT_EQ(holders(h, 8, 0), (std::vector<int>{4}));
}

TEST(Holdings, ShardsOfStateAreHeldByTheirOwners) {
  const Holdings h = example();
  ASSERT_EQ(pieces_held(h, 6, 1).size(), 1U);
  EXPECT_EQ(pieces_held(h, 6, 1)[0].to_text(), "shard/x[0:1, 0:4]");
  EXPECT_EQ(pieces_held(h, 6, 3)[0].to_text(), "shard/x[1:3, 0:4]");
  EXPECT_EQ(pieces_held(h, 7, 4)[0].to_text(), "shard/y[2:3, 3:6]");
}

TEST(Holdings, OnlyAMeshWithoutCutsIsReplicated) {
  Holdings h;
  h.mesh = data_mesh(3);
  h.tensors = {tensor("a", {5}, "replicate")};
  EXPECT_TRUE(all_replicated(h));
  h.tensors[0].layout = *Layout::parse("flat");
  EXPECT_FALSE(all_replicated(h));
  h.mesh = data_mesh(1);
  EXPECT_TRUE(all_replicated(h));
}

TEST(Holdings, WhatMakesNoSenseIsRefused) {
  const auto message = [](auto change) {
    Holdings h = example();
    change(h);
    return check_holdings(h).message();
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(message([](Holdings& h) { h.tensors[1].name = "a"; }), "expected each once and by name"));
  EXPECT_TRUE(
      has(message([](Holdings& h) { h.tensors[1].layout = *Layout::parse("partial(sum) replicate"); }),
          "partial values are no state"));
  EXPECT_TRUE(has(message([](Holdings& h) { h.tensors[6].rows = {{0, 1}, {1, 1}}; }), "have 2 rows of 3"));
  EXPECT_TRUE(has(message([](Holdings& h) { h.tensors[6].rows = {{0, 3}}; }), "for 1 replicas, the mesh 2"));
  EXPECT_TRUE(has(message([](Holdings& h) { h.tensors[7].layout = *Layout::parse("replicate shard(0)"); }),
                  "has rows, which owners have"));
  EXPECT_TRUE(
      has(message([](Holdings& h) { h.tensors.back().only_rank = 6; }), "of rank 6, and there are 6"));
}

TEST(CheckCover, HolesAndOverlapsAreFound) {
  const TensorType type{DType::kF32, {4, 6}};
  const auto box = [&](Interval rows, Interval columns) { return Piece::of_box("w", type, {rows, columns}); };
  const auto message = [](const std::vector<Piece>& pieces) { return check_cover(pieces).message(); };
  EXPECT_EQ(message({box({0, 4}, {0, 2}), box({0, 4}, {2, 6})}), "");
  EXPECT_EQ(message({part_of(box({0, 4}, {0, 6}), {0, 5}), part_of(box({0, 4}, {0, 6}), {5, 24})}), "");
  EXPECT_EQ(message({}), "[parallel] there is no piece");
  EXPECT_EQ(message({box({0, 4}, {0, 2})}), "[parallel] pieces of 'w' hold 8 elements of 24");
  EXPECT_EQ(message({box({0, 2}, {0, 6}), box({0, 2}, {0, 6})}),
            "[parallel] pieces w[0:2, 0:6] and w[0:2, 0:6] overlap");
  EXPECT_EQ(message({box({0, 2}, {0, 6}), box({1, 3}, {0, 6})}),
            "[parallel] the boxes of pieces w[0:2, 0:6] and w[1:3, 0:6] overlap");
  EXPECT_EQ(message({box({0, 4}, {0, 7})}), "[parallel] piece w[0:4, 0:7] is not within f32[4, 6]");
}

TEST(WindowOf, HasTheElementsInTheirOrderAndNoRowsBeside) {
  for (const Shape& shape : {Shape{}, Shape{9}, Shape{3, 4}, Shape{2, 3, 5}, Shape{4, 1, 2}}) {
    const TensorType type{DType::kF32, shape};
    const std::int64_t n = shape.num_elems();
    for (std::int64_t begin = 0; begin < n; ++begin)
      for (std::int64_t end = begin + 1; end <= n; ++end) {
        const Piece window = window_of("w", type, {begin, end});
        const std::vector<SharedRun> runs = runs_in_whole(window);
        ASSERT_EQ(runs, (std::vector<SharedRun>{{0, begin, end - begin}})) << window.to_text();
        const std::int64_t row = shape.rank() > 0 ? n / shape[0] : 1;
        EXPECT_LE(num_elems(window.box), end - begin + 2 * (row - 1)) << window.to_text();
      }
  }
}

}  // namespace
}  // namespace trireme::parallel
