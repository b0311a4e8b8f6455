#include "trireme/collective/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "trireme/base/rng.h"
#include "trireme/collective/tree.h"

namespace trireme::collective {
namespace {

ScheduleSpec spec_of(Kind kind, int world, std::int64_t count) {
  ScheduleSpec s;
  s.kind = kind;
  s.world = world;
  s.count = count;
  return s;
}

std::vector<LeafRun> random_runs(Philox& rng, int world, std::int32_t num_leaves) {
  std::vector<std::int32_t> cuts{0, num_leaves};
  for (int i = 1; i < world; ++i)
    cuts.push_back(static_cast<std::int32_t>(rng.next_below(static_cast<std::uint32_t>(num_leaves + 1))));
  std::sort(cuts.begin(), cuts.end());
  std::vector<LeafRun> runs;
  for (std::size_t r = 0; r + 1 < cuts.size(); ++r) runs.push_back({cuts[r], cuts[r + 1] - cuts[r]});
  return runs;
}

std::vector<RankProgram> build_all(const Algorithm& a, const ScheduleSpec& spec) {
  std::vector<RankProgram> programs;
  for (int r = 0; r < spec.world; ++r) programs.push_back(*a.build(spec, r));
  return programs;
}

// Counts with no element, fewer elements than ranks, an uneven cut, and several chunks of the tree (64 KiB
// each).
const std::int64_t kCounts[] = {0, 1, 5, 17, 100, 64 * 1024 + 3, 20 * 16 * 1024};

TEST(AlgorithmTable, HasUniqueNamesAndDocs) {
  std::set<std::string> names;
  for (const Algorithm& a : algorithm_table()) {
    EXPECT_TRUE(names.insert(std::string(kind_name(a.kind)) + "/" + a.name).second) << a.name;
    EXPECT_GT(std::string_view(a.doc).size(), 10U) << a.name;
    ASSERT_TRUE(find_algorithm(a.kind, a.name).ok());
    EXPECT_EQ(*find_algorithm(a.kind, a.name), &a);
  }
  const Status missing = find_algorithm(Kind::kAllreduce, "star").status();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_NE(missing.message().find("ring, fixed-tree"), std::string::npos) << missing.message();
}

TEST(AlgorithmTable, EveryRowIsProvedForWorldsUpToSeventeen) {
  for (const Algorithm& a : algorithm_table())
    for (int world = 1; world <= 17; ++world)
      for (const std::int64_t count : kCounts)
        for (const int root : {0, world / 2, world - 1}) {
          ScheduleSpec spec = spec_of(a.kind, world, count);
          spec.root = root;
          const Status s = verify_schedule(a, spec);
          ASSERT_TRUE(s.ok()) << a.name << " world " << world << " count " << count << ": " << s.to_string();
          if (a.kind != Kind::kBroadcast) break;
        }
}

TEST(AlgorithmTable, PricesEqualWhatTheProgramsDo) {
  for (const Algorithm& a : algorithm_table())
    for (int world = 1; world <= 17; ++world)
      for (const std::int64_t count : kCounts) {
        const ScheduleSpec spec = spec_of(a.kind, world, count);
        const Price want = measure_programs(build_all(a, spec), spec.elem_bytes), got = a.price(spec);
        EXPECT_EQ(got.rounds, want.rounds) << a.name << " world " << world << " count " << count;
        EXPECT_EQ(got.bytes_per_rank, want.bytes_per_rank)
            << a.name << " world " << world << " count " << count;
        EXPECT_EQ(got.reduce_bytes_per_rank, want.reduce_bytes_per_rank)
            << a.name << " " << world << " " << count;
      }
}

TEST(FixedTree, IsProvedAndPricedForRandomLeafRuns) {
  const Algorithm& tree = **find_algorithm(Kind::kAllreduce, "fixed-tree");
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Philox rng(seed);
    ScheduleSpec spec = spec_of(Kind::kAllreduce, 1 + static_cast<int>(rng.next_below(17)), 0);
    spec.count = kCounts[rng.next_below(std::size(kCounts))];
    spec.num_leaves = 1 + static_cast<std::int32_t>(rng.next_below(40));
    spec.leaf_runs = random_runs(rng, spec.world, spec.num_leaves);
    const Status s = verify_schedule(tree, spec);
    ASSERT_TRUE(s.ok()) << "seed " << seed << ": " << s.to_string();
    const Price got = tree.price(spec), want = measure_programs(build_all(tree, spec), spec.elem_bytes);
    ASSERT_EQ(got, want) << "seed " << seed << " rounds " << got.rounds << " / " << want.rounds << ", bytes "
                         << got.bytes_per_rank << " / " << want.bytes_per_rank;
  }
}

TEST(FixedTree, IsLogarithmicallyDeepAndSpreadsItsBytes) {
  const Algorithm& tree = **find_algorithm(Kind::kAllreduce, "fixed-tree");
  const ScheduleSpec spec = spec_of(Kind::kAllreduce, 1024, std::int64_t{1024} * 16 * 1024);
  const Price p = tree.price(spec);
  EXPECT_EQ(p.rounds, 20);
  // Twice the bytes is the least possible; the rotation over chunks keeps every rank close to it.
  EXPECT_LT(p.bytes_per_rank, 2.1 * static_cast<double>(spec.bytes()));
}

TEST(FixedTree, RefusesLeafRunsThatDoNotTile) {
  const Algorithm& tree = **find_algorithm(Kind::kAllreduce, "fixed-tree");
  ScheduleSpec spec = spec_of(Kind::kAllreduce, 2, 8);
  spec.num_leaves = 4;
  for (const std::vector<LeafRun>& runs :
       {std::vector<LeafRun>{{0, 4}}, {{0, 2}, {3, 1}}, {{0, 2}, {2, 1}}, {{0, 5}, {5, -1}}}) {
    spec.leaf_runs = runs;
    EXPECT_EQ(tree.applicable(spec).code(), Code::kInvalid);
  }
  spec.leaf_runs = {{0, 4}, {4, 0}};
  EXPECT_TRUE(tree.applicable(spec).ok());
}

TEST(MaximalSubtrees, TileARunLeftToRight) {
  using Nodes = std::vector<TreeNode>;
  EXPECT_EQ(maximal_subtrees({0, 3}, 8), (Nodes{{0, 1}, {2, 0}}));
  EXPECT_EQ(maximal_subtrees({3, 3}, 8), (Nodes{{3, 0}, {4, 1}}));
  EXPECT_EQ(maximal_subtrees({6, 2}, 8), (Nodes{{6, 1}}));
  EXPECT_EQ(maximal_subtrees({0, 8}, 8), (Nodes{{0, 3}}));
  EXPECT_EQ(maximal_subtrees({5, 0}, 8), Nodes{});
  // A half beyond the last leaf is missing: the last leaf of five is the whole right half.
  EXPECT_EQ(maximal_subtrees({4, 1}, 5), (Nodes{{4, 2}}));
  EXPECT_EQ(maximal_subtrees({0, 5}, 5), (Nodes{{0, 3}}));
  EXPECT_EQ(maximal_subtrees({0, 1}, 1), (Nodes{{0, 0}}));
}

TEST(Selection, TakesTheTreeForSmallAndTheRingForLargeSums) {
  const cost::LinkModel link;
  const cost::MachineModel machine;
  const auto name = [&](int world, std::int64_t count) {
    return std::string((*select_algorithm(spec_of(Kind::kAllreduce, world, count), link, machine))->name);
  };
  EXPECT_EQ(name(16, 100), "fixed-tree");
  EXPECT_EQ(name(6, 100'000'000), "ring");
  ScheduleSpec leaves = spec_of(Kind::kAllreduce, 2, 100'000'000);
  leaves.num_leaves = 3;
  leaves.leaf_runs = {{0, 2}, {2, 1}};
  EXPECT_STREQ((*select_algorithm(leaves, link, machine))->name, "fixed-tree");
  EXPECT_EQ(select_algorithm(spec_of(Kind::kAllgather, 2, 8), link, machine).status().code(),
            Code::kNotFound);
}

TEST(RankProgram, PrintsItsSteps) {
  const Algorithm& ring = **find_algorithm(Kind::kAllreduce, "ring");
  EXPECT_EQ(ring.build(spec_of(Kind::kAllreduce, 2, 4), 0)->to_text(),
            "rank 0: 4 steps, 0 partials\n"
            "   0 send             b0[0, 2) -> rank 1 part 0\n"
            "   1 recv_reduce_left rank 1 part 0 -> b0[2, 4)\n"
            "   2 send             b0[2, 4) -> rank 1 part 1  after 1\n"
            "   3 recv             rank 1 part 1 -> b0[0, 2)  after 0\n");
}

}  // namespace
}  // namespace trireme::collective
