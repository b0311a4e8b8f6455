// Layouts are checked by writing down who holds which element, for random tensors, meshes and layouts.
#include "trireme/parallel/piece.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "trireme/op/op.h"

namespace trireme::parallel {
namespace {

constexpr int kCases = 400;

struct Case {
  TensorType whole;
  Mesh mesh;
  Layout layout;
};

int pick(std::mt19937& rng, int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(rng);
}

AxisLayout random_axis(std::mt19937& rng, int rank) {
  switch (pick(rng, 0, rank > 0 ? 4 : 2)) {
    case 0:
      return AxisLayout::replicate();
    case 1:
      return AxisLayout::partial(pick(rng, 0, 1) == 0 ? collective::Reduction::kSum
                                                      : collective::Reduction::kMax);
    case 2:
      return AxisLayout::flat();
    default:
      return AxisLayout::shard(pick(rng, 0, rank - 1), pick(rng, 0, 3) == 0 ? pick(rng, 2, 3) : 1,
                               pick(rng, 0, 3) == 0 ? pick(rng, 2, 3) : 1);
  }
}

// Sizes of 0 and axes longer than what they cut are among them.
Case random_case(std::mt19937& rng) {
  for (;;) {
    Case c;
    std::vector<std::int64_t> dims;
    for (int i = pick(rng, 0, 3); i > 0; --i) dims.push_back(pick(rng, pick(rng, 0, 6) == 0 ? 0 : 1, 12));
    c.whole = {DType::kF32, Shape(std::span<const std::int64_t>(dims))};
    for (int i = pick(rng, 1, 3); i > 0; --i) {
      c.mesh.axes.push_back({fmt::format("a{}", i), pick(rng, 1, 4)});
      c.layout.axes.push_back(random_axis(rng, c.whole.shape.rank()));
    }
    if (check_layout(c.layout, c.mesh, c.whole).ok()) return c;
  }
}

std::string text_of(const Case& c) { return c.whole.to_string() + " " + c.layout.to_text(); }

// Coordinates along the axes that do not cut: ranks of one group together hold the tensor once.
std::vector<int> group_of(const Case& c, int rank) {
  std::vector<int> at = c.mesh.coordinates(rank);
  for (std::size_t i = 0; i < at.size(); ++i)
    if (c.layout.axes[i].cuts()) at[i] = 0;
  return at;
}

TEST(Pieces, HoldEveryElementExactlyOnceOverTheAxesThatCut) {
  std::mt19937 rng(1);
  for (int i = 0; i < kCases; ++i) {
    const Case c = random_case(rng);
    std::map<std::vector<int>, std::vector<int>> holders;
    for (int rank = 0; rank < c.mesh.num_ranks(); ++rank) {
      auto& count = holders[group_of(c, rank)];
      count.resize(static_cast<std::size_t>(c.whole.shape.num_elems()));
      for (const Piece& p : pieces_of(c.layout, c.mesh, rank, "w", c.whole))
        for (const SharedRun& run : runs_in_whole(p))
          for (std::int64_t e = 0; e < run.count; ++e) ++count[static_cast<std::size_t>(run.second + e)];
    }
    for (const auto& [at, count] : holders)
      for (const int n : count) ASSERT_EQ(n, 1) << text_of(c);
  }
}

TEST(Pieces, OfRanksThatDifferOnlyAlongReplicatedOrPartialAxesAreEqual) {
  std::mt19937 rng(2);
  for (int i = 0; i < kCases; ++i) {
    const Case c = random_case(rng);
    for (int rank = 0; rank < c.mesh.num_ranks(); ++rank)
      for (std::size_t axis = 0; axis < c.mesh.axes.size(); ++axis)
        for (const int other : c.mesh.line(rank, axis)) {
          if (c.layout.axes[axis].cuts()) continue;
          ASSERT_EQ(pieces_of(c.layout, c.mesh, rank, "w", c.whole),
                    pieces_of(c.layout, c.mesh, other, "w", c.whole))
              << text_of(c);
        }
  }
}

// The elements of a piece, by their number in the whole tensor, in the order of the piece.
std::vector<std::int64_t> elements(const Piece& p) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(p.elems()), -1);
  std::int64_t next = 0;
  for (const SharedRun& run : runs_in_whole(p)) {
    EXPECT_EQ(run.first, next) << p.to_text();
    for (std::int64_t e = 0; e < run.count; ++e)
      out[static_cast<std::size_t>(run.first + e)] = run.second + e;
    next += run.count;
  }
  EXPECT_EQ(next, p.elems()) << p.to_text();
  return out;
}

TEST(SharedRuns, OfTwoLayoutsMoveATensorFromTheOneToTheOther) {
  std::mt19937 rng(3);
  for (int i = 0; i < kCases; ++i) {
    const Case from = random_case(rng);
    Case to = random_case(rng);
    to.whole = from.whole;
    if (!check_layout(to.layout, to.mesh, to.whole).ok()) continue;
    for (int rank = 0; rank < to.mesh.num_ranks(); ++rank)
      for (const Piece& wanted : pieces_of(to.layout, to.mesh, rank, "w", to.whole)) {
        const std::vector<std::int64_t> expected = elements(wanted);
        std::vector<std::int64_t> got(expected.size(), -1);
        std::int64_t copied = 0;
        for (int source = 0; source < from.mesh.num_ranks(); ++source) {
          if (group_of(from, source) != std::vector<int>(from.mesh.axes.size(), 0)) continue;
          for (const Piece& held : pieces_of(from.layout, from.mesh, source, "w", from.whole)) {
            const std::vector<std::int64_t> values = elements(held);
            for (const SharedRun& run : shared_runs(held, wanted)) {
              copied += run.count;
              for (std::int64_t e = 0; e < run.count; ++e)
                got[static_cast<std::size_t>(run.second + e)] =
                    values[static_cast<std::size_t>(run.first + e)];
            }
          }
        }
        ASSERT_EQ(got, expected) << text_of(from) << " to " << text_of(to);
        ASSERT_EQ(copied, wanted.elems()) << "an element came twice";
      }
  }
}

TEST(SharedRuns, AreAsFewAsThereCanBe) {
  const TensorType t{DType::kF32, {4, 6}};
  const Piece rows = Piece::of_box("w", t, {{1, 3}, {0, 6}}),
              columns = Piece::of_box("w", t, {{0, 4}, {2, 4}});
  EXPECT_EQ(runs_in_whole(rows), (std::vector<SharedRun>{{0, 6, 12}})) << "whole rows are one run";
  EXPECT_EQ(runs_in_whole(columns), (std::vector<SharedRun>{{0, 2, 2}, {2, 8, 2}, {4, 14, 2}, {6, 20, 2}}));
  EXPECT_EQ(shared_runs(rows, columns), (std::vector<SharedRun>{{2, 2, 2}, {8, 4, 2}}));
  EXPECT_TRUE(shared_runs(rows, Piece::of_box("w", t, {{3, 4}, {0, 6}})).empty());
}

TEST(Pieces, OfBlocksAreACutOfEachBlock) {
  const TensorType qkv{DType::kF32, {2, 12}};
  const Mesh mesh{{{"model", 2}}};
  const Layout layout{{AxisLayout::shard(1, 3)}};
  const auto pieces = pieces_of(layout, mesh, 1, "qkv", qkv);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].to_text(), "qkv[0:2, 2:4]");
  EXPECT_EQ(pieces[1].to_text(), "qkv[0:2, 6:8]");
  EXPECT_EQ(pieces[2].to_text(), "qkv[0:2, 10:12]");
  EXPECT_EQ(local_shape(layout, mesh, 1, qkv.shape), (Shape{2, 6}));
}

TEST(Pieces, OfUnitsAreCutBetweenThem) {
  const TensorType heads{DType::kF32, {24}};
  const Mesh mesh{{{"model", 3}}};
  const Layout layout{{AxisLayout::shard(0, 3, 4)}};  // two heads of width 4 in each of three blocks
  const auto pieces = pieces_of(layout, mesh, 0, "qkv", heads);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].to_text(), "qkv[0:4]");
  EXPECT_EQ(pieces[2].to_text(), "qkv[16:20]");
  EXPECT_EQ(local_shape(layout, mesh, 1, heads.shape), (Shape{12}));
  EXPECT_TRUE(pieces_of(layout, mesh, 2, "qkv", heads).empty());
}

TEST(Pieces, CutFlatAreRangesOfWhatTheOtherAxesLeave) {
  const TensorType t{DType::kF32, {3, 4}};
  const Mesh mesh{{{"data", 2}, {"model", 2}}};
  const Layout layout{{AxisLayout::flat(), AxisLayout::shard(1)}};
  const auto pieces = pieces_of(layout, mesh, 3, "w", t);
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].to_text(), "w[0:3, 2:4] flat 3:6");
  EXPECT_EQ(runs_in_whole(pieces[0]), (std::vector<SharedRun>{{0, 7, 1}, {1, 10, 2}}));
}

TEST(LocalShape, IsTheSizeOfTheBoxesWhereNothingIsCutFlat) {
  std::mt19937 rng(4);
  for (int i = 0; i < kCases; ++i) {
    const Case c = random_case(rng);
    if (std::any_of(c.layout.axes.begin(), c.layout.axes.end(),
                    [](const AxisLayout& a) { return a.kind == AxisLayout::Kind::kFlat; }))
      continue;
    for (int rank = 0; rank < c.mesh.num_ranks(); ++rank) {
      std::int64_t elems = 0;
      for (const Piece& p : pieces_of(c.layout, c.mesh, rank, "w", c.whole)) elems += p.elems();
      ASSERT_EQ(local_shape(c.layout, c.mesh, rank, c.whole.shape).num_elems(), elems) << text_of(c);
    }
  }
}

TEST(CutEvenly, GivesPartsInOrderThatDifferByAtMostOneLongerFirst) {
  for (std::int64_t size = 0; size <= 20; ++size)
    for (int parts = 1; parts <= 7; ++parts) {
      std::int64_t next = 5;
      for (int p = 0; p < parts; ++p) {
        const Interval part = cut_evenly({5, 5 + size}, parts, p);
        EXPECT_EQ(part.begin, next);
        EXPECT_EQ(part.size(), size / parts + (p < size % parts ? 1 : 0));
        next = part.end;
      }
      EXPECT_EQ(next, 5 + size);
    }
}

TEST(Layout, ComesBackFromItsText) {
  std::mt19937 rng(5);
  for (int i = 0; i < kCases; ++i) {
    const Case c = random_case(rng);
    const Result<Layout> back = Layout::parse(c.layout.to_text());
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_EQ(*back, c.layout) << text_of(c);
  }
  EXPECT_EQ(Layout::replicate(data_mesh(3)).to_text(), "replicate");
  for (const char* bad : {"shard", "shard()", "shard(-1)", "shard(1", "shard(1,)", "shard(1,2,3,4)",
                          "partial(mean)", "whole", "flat  flat"})
    EXPECT_EQ(Layout::parse(bad).status().code(), Code::kInvalid) << bad;
}

TEST(Layout, ThatDoesNotFitTheTensorOrTheMeshIsRefused) {
  const TensorType t{DType::kF32, {4, 10}};
  const Mesh two{{{"data", 2}, {"model", 2}}};
  using A = AxisLayout;
  EXPECT_TRUE(check_layout({{A::flat(), A::shard(0)}}, two, t).ok());
  for (const Layout& bad :
       {Layout{{A::flat()}}, Layout{{A::shard(2), A::replicate()}}, Layout{{A::shard(1, 3), A::replicate()}},
        Layout{{A::shard(1, 0), A::replicate()}}, Layout{{A::shard(1), A::shard(1, 2)}},
        Layout{{A::shard(0, 2), A::flat()}}, Layout{{A::shard(1, 1, 4), A::replicate()}},
        Layout{{A::shard(1, 1, 0), A::replicate()}},
        Layout{{A::partial(collective::Reduction::kMin), A::replicate()}}})
    EXPECT_EQ(check_layout(bad, two, t).code(), Code::kInvalid) << bad.to_text();
}

TEST(Layout, ReadsEntriesOfOpRules) {
  EXPECT_EQ(AxisLayout::of_option(op::kReplicate), AxisLayout::replicate());
  EXPECT_EQ(AxisLayout::of_option(op::kPartial), AxisLayout::partial());
  EXPECT_EQ(AxisLayout::of_option(op::kPartialMax), AxisLayout::partial(collective::Reduction::kMax));
  EXPECT_EQ(AxisLayout::of_option(2), AxisLayout::shard(2));
  EXPECT_EQ(AxisLayout::of_option({1, 3, 16}), AxisLayout::shard(1, 3, 16));
}

}  // namespace
}  // namespace trireme::parallel
