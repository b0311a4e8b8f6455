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
               tensor("e", {4, 6}, "flat shard(1)"),         tensor("f", {0, 3}, "shard(0) flat"),
               tensor("g", {4}, "replicate at(1)"),          tensor("h", {}, "at(1) at(0,2)"),
               tensor("i", {5}, "shard(0) at(0,2)")};
  StateTensor rows = tensor("shard/x", {3, 4}, "replicate replicate");
  rows.rows = {{0, 1}, {1, 2}};
  h.tensors.push_back(rows);
  StateTensor cut_rows = tensor("shard/y", {3, 8}, "replicate shard(1)");
  cut_rows.rows = {{0, 2}, {2, 1}};
  h.tensors.push_back(cut_rows);
  // Divided among the replicas; blocks in turn, blocks beside each other, and of two values together.
  const auto divided = [&](const char* name, Shape shape, const char* layout, std::int64_t cut) {
    StateTensor& t = h.tensors.emplace_back(tensor(name, shape, layout));
    t.ranges = {{-16, cut}, {cut, 1 << 20}};
  };
  divided("t", {5, 4}, "replicate shard(0)", 3);
  divided("u", {12}, "replicate shard(0,2)", 3);
  divided("v", {5, 12}, "replicate shard(1,2)", 9);
  divided("w", {5, 12, 2}, "replicate shard(1,2)", 11);
  divided("x", {7}, "replicate replicate", 0);
  divided("y", {7}, "replicate replicate", 64);
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

// A range of what is joined: its elements, in order, are those of its pieces at their places.
TEST(Holdings, RangesOfBlocksAreTheirElementsInTheOrderOfTheRank) {
  const Holdings h = example();
  for (std::size_t t = 0; t < h.tensors.size(); ++t) {
    if (h.tensors[t].ranges.empty()) continue;
    for (int rank = 0; rank < h.mesh.num_ranks(); ++rank) {
      // The whole's element at every place of what is joined: rows of all blocks, one after the other.
      const auto joined = pieces_of(h.tensors[t].layout, h.mesh, rank, h.tensors[t].name, h.tensors[t].whole);
      const auto elements = [](const Piece& p) {
        std::vector<std::int64_t> out(static_cast<std::size_t>(p.elems()));
        for (const SharedRun& run : runs_in_whole(p))
          for (std::int64_t i = 0; i < run.count; ++i)
            out[static_cast<std::size_t>(run.first + i)] = run.second + i;
        return out;
      };
      std::vector<std::int64_t> places;
      const bool beside = joined.size() > 1 && joined[0].box[0] == joined[1].box[0];
      const std::int64_t rows = beside ? joined[0].box[0].size() : 1;
      for (std::int64_t r = 0; r < rows; ++r)
        for (const Piece& p : joined) {
          const auto all = elements(p);
          const std::size_t width = all.size() / static_cast<std::size_t>(rows);
          for (std::size_t i = 0; i < width; ++i)
            places.push_back(all[static_cast<std::size_t>(r) * width + i]);
        }
      Interval range;
      std::vector<std::int64_t> got(places.size(), -1);
      for (const RangePiece& p : range_held(h, t, rank, range)) {
        const auto all = elements(p.piece);
        const std::int64_t parts = p.row_stride == 0 ? 1 : p.piece.box[0].size();
        const std::size_t width = all.size() / static_cast<std::size_t>(parts);
        for (std::size_t i = 0; i < all.size(); ++i) {
          const auto at = p.first + static_cast<std::int64_t>(i / width) * p.row_stride +
                          static_cast<std::int64_t>(i % width);
          got[static_cast<std::size_t>(at)] = all[i];
        }
      }
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(places.size()); ++i) {
        const bool own = i >= range.begin && i < range.end;
        EXPECT_EQ(got[static_cast<std::size_t>(i)], own ? places[static_cast<std::size_t>(i)] : -1)
            << h.tensors[t].name << " of rank " << rank << ", element " << i;
      }
    }
  }
}

TEST(Holdings, RangesThatLeaveElementsOutAreRefused) {
  for (const std::vector<Interval>& ranges :
       {std::vector<Interval>{{0, 20}}, {{1, 5}, {5, 20}}, {{0, 5}, {6, 20}}, {{0, 5}, {5, 6}}}) {
    Holdings h;
    h.mesh = kMesh;
    h.tensors = {tensor("a", {5, 4}, "replicate shard(0)")};
    h.tensors[0].ranges = ranges;
    EXPECT_EQ(check_holdings(h).code(), Code::kInvalid) << ranges.back().end;
  }
  Holdings twice;
  twice.mesh = kMesh;
  twice.tensors = {tensor("a", {5, 4}, "shard(0) replicate")};
  twice.tensors[0].ranges = {{0, 5}, {5, 20}};
  EXPECT_EQ(check_holdings(twice).code(), Code::kInvalid);
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
  EXPECT_EQ(holders(h, 6, 4), (std::vector<int>{1, 4}));
  EXPECT_EQ(holders(h, 7, 5), (std::vector<int>{3, 5}));
  EXPECT_EQ(holders(h, 9, 5), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(holders(h, 10, 4), (std::vector<int>{4}));
  EXPECT_EQ(holders(h, h.tensors.size() - 1, 0), (std::vector<int>{4}));
}

TEST(Holdings, ShardsOfStateAreHeldByTheirOwners) {
  const Holdings h = example();
  ASSERT_EQ(pieces_held(h, 9, 1).size(), 1U);
  EXPECT_EQ(pieces_held(h, 9, 1)[0].to_text(), "shard/x[0:1, 0:4]");
  EXPECT_EQ(pieces_held(h, 9, 3)[0].to_text(), "shard/x[1:3, 0:4]");
  EXPECT_EQ(pieces_held(h, 10, 4)[0].to_text(), "shard/y[2:3, 3:6]");
}

TEST(Holdings, TensorsLieAtSomePlacesOfAnAxis) {
  const Holdings h = example();
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(pieces_held(h, 6, rank).empty(), rank % 3 != 1) << rank;
    EXPECT_EQ(pieces_held(h, 7, rank).empty(), rank < 3 || rank == 4) << rank;
  }
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
  EXPECT_TRUE(has(message([](Holdings& h) { h.tensors[9].rows = {{0, 1}, {1, 1}}; }), "have 2 rows of 3"));
  EXPECT_TRUE(has(message([](Holdings& h) { h.tensors[9].rows = {{0, 3}}; }), "for 1 replicas, the mesh 2"));
  EXPECT_TRUE(has(message([](Holdings& h) { h.tensors[10].layout = *Layout::parse("replicate shard(0)"); }),
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
