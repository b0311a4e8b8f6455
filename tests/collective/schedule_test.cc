#include "trireme/collective/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "trireme/base/rng.h"
#include "trireme/collective/formulas.h"
#include "trireme/collective/tree.h"

namespace trireme::collective {
namespace {

// Uneven groups that are not consecutive; an exchange with both neighbours of a ring, one rank further on and
// with oneself.
ScheduleSpec spec_of(Kind kind, int world, std::int64_t count) {
  ScheduleSpec s;
  s.kind = kind;
  s.world = world;
  s.count = count;
  for (int r = 0; r < world; ++r) s.group_of.push_back(r % 5 == 3 ? 1 : r / 4);
  if (kind == Kind::kNeighbours) {
    s.count = 0;
    for (int r = 0; r < world; ++r) {
      std::set<int> to{r, (r + 1) % world, (r + 3) % world, (r + world - 1) % world};
      for (const int q : to) s.count += s.edges.emplace_back(Edge{r, q, (count + q) * (q % 3)}).count;
    }
  }
  return s;
}

std::string text_of(const Algorithm& a, const ScheduleSpec& spec) {
  return fmt::format("{} {}, world {}, count {}, root {}, {} counts, {}", kind_name(a.kind), a.name,
                     spec.world, spec.count, spec.root, spec.counts.size(),
                     spec.peer_memory ? "reads" : "messages");
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
  for (int r = 0; r < spec.world; ++r) programs.push_back(*build_program(a, spec, r));
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

// Proved, and the price is what the programs do. The bytes that follow one another are no less than the
// programs need, and no more than everything in a row would be.
void expect_proved_and_priced(const Algorithm& a, const ScheduleSpec& spec) {
  SCOPED_TRACE(text_of(a, spec));
  const Status s = verify_schedule(a, spec);
  ASSERT_TRUE(s.ok()) << s.to_string();
  const Price want = measure_programs(build_all(a, spec), spec.elem_bytes, spec.group_of),
              got = a.price(spec);
  EXPECT_EQ(got.rounds, want.rounds);
  EXPECT_EQ(got.hops, want.hops);
  EXPECT_EQ(got.bytes_per_rank, want.bytes_per_rank);
  EXPECT_EQ(got.reduce_bytes_per_rank, want.reduce_bytes_per_rank);
  EXPECT_EQ(got.messages_sent, want.messages_sent);
  EXPECT_EQ(got.messages_received, want.messages_received);
  EXPECT_EQ(got.peer_copy_bytes, want.peer_copy_bytes);
  EXPECT_EQ(got.serial_bytes, want.serial_bytes);
  EXPECT_EQ(got.between.messages, want.between.messages);
  EXPECT_EQ(got.between.bytes, want.between.bytes);
  EXPECT_EQ(got.between.local_messages, want.between.local_messages);
  EXPECT_EQ(got.between.local_bytes, want.between.local_bytes);
  EXPECT_EQ(got.between.hops, want.between.hops);
}

TEST(AlgorithmTable, EveryRowIsProvedAndPricedForWorldsUpToThirtyThree) {
  for (const Algorithm& a : algorithm_table())
    for (int world = 1; world <= 33; ++world)
      for (const std::int64_t count : kCounts) {
        if (world > 17 && count != 1 && count != 100) continue;
        if (world > 9 && world != 16 && count > 200'000) continue;
        for (const int root : {0, world / 2, world - 1}) {
          ScheduleSpec spec = spec_of(a.kind, world, count);
          spec.root = root;
          expect_proved_and_priced(a, spec);
          if (HasFailure()) return;
          if (!has_root(a.kind)) break;
        }
      }
}

TEST(AlgorithmTable, EveryRowIsProvedAndPricedForAFewLargeWorlds) {
  for (const Algorithm& a : algorithm_table()) {
    expect_proved_and_priced(a, spec_of(a.kind, 50, 3001));
    if (HasFailure()) return;
  }
  // Logarithmically many steps per rank: larger still.
  for (const char* name : {"fixed-tree", "binomial", "butterfly", "rabenseifner"})
    for (const int world : {128, 200})
      expect_proved_and_priced(**find_algorithm(Kind::kAllreduce, name),
                               spec_of(Kind::kAllreduce, world, 3001));
}

TEST(AlgorithmTable, EveryKindHasAnAlgorithm) {
  std::set<Kind> kinds;
  for (const Algorithm& a : algorithm_table()) kinds.insert(a.kind);
  for (int k = 1; k <= static_cast<int>(Kind::kNeighbours); ++k)
    EXPECT_EQ(kinds.count(static_cast<Kind>(k)), 1U) << kind_name(static_cast<Kind>(k));
}

TEST(AlgorithmTable, MeansAreDividedOnce) {
  for (const Algorithm& a : algorithm_table())
    for (const int world : {1, 2, 5, 8}) {
      if (!is_reduction(a.kind)) continue;
      ScheduleSpec spec = spec_of(a.kind, world, 41);
      spec.reduction = Reduction::kMean;
      expect_proved_and_priced(a, spec);
      // A sum is no mean, and the other way round.
      auto programs = build_all(a, spec);
      spec.reduction = Reduction::kSum;
      EXPECT_FALSE(verify_programs(programs, spec, a.fixed_order).ok()) << a.name;
      if (HasFailure()) return;
    }
}

TEST(AlgorithmTable, BlocksOfAnySizeAreProvedAndPriced) {
  for (std::uint64_t seed = 0; seed < 150; ++seed)
    for (const Kind kind :
         {Kind::kGather, Kind::kScatter, Kind::kAllgather, Kind::kReduceScatter, Kind::kAllToAll}) {
      Philox rng(seed, static_cast<std::uint64_t>(kind));
      ScheduleSpec spec = spec_of(kind, 1 + static_cast<int>(rng.next_below(9)), 0);
      spec.root = static_cast<int>(rng.next_below(static_cast<std::uint32_t>(spec.world)));
      const int num = kind == Kind::kAllToAll ? spec.world * spec.world : spec.world;
      for (int i = 0; i < num; ++i)
        spec.count += spec.counts.emplace_back(rng.next_below(3) == 0 ? 0 : rng.next_below(50));
      for (const Algorithm& a : algorithm_table())
        if (a.kind == kind) expect_proved_and_priced(a, spec);
      if (HasFailure()) return;
    }
}

TEST(PeerMemory, ReadsAreProvedAndPriced) {
  for (const char* name : {"one-shot", "two-shot"})
    for (const int world : {1, 2, 3, 4, 7, 8, 16, 33})
      for (const std::int64_t count : {0, 1, 5, 100}) {
        ScheduleSpec spec = spec_of(Kind::kAllreduce, world, count);
        spec.peer_memory = true;
        expect_proved_and_priced(**find_algorithm(Kind::kAllreduce, name), spec);
        if (HasFailure()) return;
      }
}

TEST(Chain, HasItsRoundsForEverySegmentSize) {
  const Algorithm& chain = **find_algorithm(Kind::kAllreduce, "chain");
  for (const int world : {2, 3, 8})
    for (const std::int64_t segments : {1, 2, 5, 16}) {
      ScheduleSpec spec = spec_of(Kind::kAllreduce, world, 160);
      spec.segment_bytes = 160 / segments * 4;
      expect_proved_and_priced(chain, spec);
      EXPECT_EQ(chain.price(spec).rounds, 2 * (world + segments - 2));
    }
}

TEST(Butterfly, FoldsWorldsThatAreNoPowersOfTwo) {
  for (const char* name : {"butterfly", "rabenseifner"}) {
    const Algorithm& a = **find_algorithm(Kind::kAllreduce, name);
    const auto rounds = [&](int world) { return a.price(spec_of(Kind::kAllreduce, world, 1000)).rounds; };
    EXPECT_EQ(rounds(7), rounds(4) + 2);
    EXPECT_EQ(rounds(9), rounds(8) + 2);
  }
}

// Where the last round sends what a rank has had for long, it waits for nothing: 3 ranks take one round.
TEST(Bruck, TakesLogarithmicallyManyRoundsAndTheBytesOfARing) {
  const Algorithm &bruck = **find_algorithm(Kind::kAllgather, "bruck"),
                  &ring = **find_algorithm(Kind::kAllgather, "ring");
  for (const auto& [world, rounds] : std::vector<std::pair<int, int>>{
           {1, 0}, {2, 1}, {3, 1}, {4, 2}, {5, 2}, {6, 2}, {7, 3}, {8, 3}, {9, 3}, {64, 6}}) {
    ScheduleSpec spec = spec_of(Kind::kAllgather, world, 100 * world);
    spec.group_of.clear();
    EXPECT_EQ(bruck.price(spec).rounds, rounds) << world;
    EXPECT_EQ(bruck.price(spec).bytes_per_rank, ring.price(spec).bytes_per_rank) << world;
    for (const RankProgram& p : build_all(bruck, spec)) EXPECT_TRUE(p.scratch_elems.empty()) << world;
  }
}

// The largest block goes around a ring in every round; here it is part of what doubles.
TEST(Bruck, PassesUnevenBlocksOnFasterThanARing) {
  ScheduleSpec spec = spec_of(Kind::kAllgather, 16, 16 * 1000);
  spec.group_of.clear();
  spec.counts.assign(16, 0);
  spec.counts[5] = spec.count;
  const auto serial = [&](const char* name) {
    return (*find_algorithm(Kind::kAllgather, name))->price(spec).serial_bytes;
  };
  EXPECT_EQ(serial("ring"), 15.0 * static_cast<double>(spec.bytes()));
  EXPECT_EQ(serial("bruck"), 4.0 * static_cast<double>(spec.bytes()));
}

TEST(Hierarchical, SendsLessBetweenMachinesThanARing) {
  const Algorithm& a = **find_algorithm(Kind::kAllreduce, "hierarchical");
  ScheduleSpec spec = spec_of(Kind::kAllreduce, 16, 1600);
  for (int r = 0; r < 16; ++r) spec.group_of[static_cast<std::size_t>(r)] = r / 4;
  std::int64_t between = 0;
  for (const RankProgram& p : build_all(a, spec))
    for (const Step& s : p.steps)
      if (s.kind == StepKind::kSend && s.peer / 4 != p.rank / 4) between += s.count;
  // A ring in this order crosses machines 4 times per round; here every machine sends 2 * 3/4 of the bytes.
  EXPECT_EQ(between, 4 * 2 * 1600 * 3 / 4);
  EXPECT_EQ(a.price(spec).rounds, 2 * 3 + 2);
  spec.group_of.pop_back();
  EXPECT_EQ(check_spec(spec).code(), Code::kInvalid);
  spec.group_of.clear();
  EXPECT_EQ(a.applicable(spec).code(), Code::kInvalid);
}

TEST(Linear, TalksToNeighboursOnly) {
  for (const RankProgram& p :
       build_all(**find_algorithm(Kind::kAllreduce, "linear"), spec_of(Kind::kAllreduce, 9, 100)))
    for (const Step& s : p.steps)
      if (s.kind == StepKind::kSend || is_recv(s.kind)) {
        EXPECT_EQ(std::abs(s.peer - p.rank), 1);
      }
}

TEST(Spec, SaysHowManyRanksAndElementsThereMayBe) {
  EXPECT_EQ(check_spec(spec_of(Kind::kAllreduce, 0, -2)).message(),
            "[collective] got 0 ranks and -2 elements, expected at least 1 rank and 0 or more elements");
  EXPECT_TRUE(check_spec(spec_of(Kind::kAllreduce, 1, 0)).ok());
}

TEST(Spec, RefusesRootsCountsAndEdgesThatMakeNoSense) {
  ScheduleSpec spec = spec_of(Kind::kGather, 3, 10);
  spec.root = 3;
  EXPECT_EQ(check_spec(spec).code(), Code::kInvalid);
  spec.root = 0;
  spec.counts = {5, 5};
  EXPECT_EQ(check_spec(spec).code(), Code::kInvalid);
  spec.counts = {5, 5, 1};
  EXPECT_EQ(check_spec(spec).code(), Code::kInvalid);
  spec.counts = {5, 6, -1};
  EXPECT_EQ(check_spec(spec).code(), Code::kInvalid);
  spec.counts = {5, 0, 5};
  EXPECT_TRUE(check_spec(spec).ok());
  spec.kind = Kind::kAllreduce;  // has no blocks
  EXPECT_EQ(check_spec(spec).code(), Code::kInvalid);
  spec = spec_of(Kind::kNeighbours, 3, 10);
  EXPECT_TRUE(check_spec(spec).ok());
  spec.edges.push_back(spec.edges.back());
  EXPECT_NE(check_spec(spec).message().find("twice"), std::string::npos);
  spec.edges.back() = {0, 3, 1};
  EXPECT_EQ(check_spec(spec).code(), Code::kInvalid);
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
    const Price got = tree.price(spec);
    Price want = measure_programs(build_all(tree, spec), spec.elem_bytes, spec.group_of);
    want.exposed_reduce_bytes = got.exposed_reduce_bytes;
    want.waiting_bytes = got.waiting_bytes;
    want.flow = got.flow;
    ASSERT_EQ(got, want) << "seed " << seed << " rounds " << got.rounds << " / " << want.rounds << ", bytes "
                         << got.bytes_per_rank << " / " << want.bytes_per_rank;
  }
}

TEST(FixedTreeReduceScatter, IsProvedAndPricedForRandomLeafRunsAndBlocks) {
  const Algorithm& tree = **find_algorithm(Kind::kReduceScatter, "fixed-tree");
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Philox rng(seed, 7);
    ScheduleSpec spec = spec_of(Kind::kReduceScatter, 1 + static_cast<int>(rng.next_below(17)), 0);
    spec.num_leaves = 1 + static_cast<std::int32_t>(rng.next_below(40));
    spec.leaf_runs = random_runs(rng, spec.world, spec.num_leaves);
    for (int i = 0; i < spec.world; ++i)
      spec.count += spec.counts.emplace_back(rng.next_below(4) == 0 ? 0 : rng.next_below(50));
    expect_proved_and_priced(tree, spec);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// Half of what an allreduce sends: a block never goes back down the tree.
TEST(FixedTreeReduceScatter, SendsEveryBlockOnceWhereRunsAreEqual) {
  const Algorithm& tree = **find_algorithm(Kind::kReduceScatter, "fixed-tree");
  for (const int world : {2, 4, 8})
    for (const std::int32_t each : {1, 2, 4}) {
      ScheduleSpec spec = spec_of(Kind::kReduceScatter, world, 1000 * world);
      spec.num_leaves = world * each;
      for (int r = 0; r < world; ++r) spec.leaf_runs.push_back({r * each, each});
      EXPECT_EQ(tree.price(spec).bytes_per_rank, 4 * 1000 * (world - 1)) << world << " x " << each;
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

TEST(Selection, TakesFewRoundsForSmallAndFewBytesForLargeSums) {
  const cost::LinkModel link;
  const cost::MachineModel machine;
  const auto name = [&](int world, std::int64_t count) {
    ScheduleSpec spec = spec_of(Kind::kAllreduce, world, count);
    spec.group_of.clear();
    return std::string((*select_algorithm(spec, link, machine))->name);
  };
  EXPECT_EQ(name(4, 100), "one-shot");
  // So many into one rank take their turn: more rounds of one message each are faster.
  EXPECT_EQ(name(64, 100), "butterfly");
  EXPECT_EQ(name(6, 100'000'000), "two-shot");
  ScheduleSpec leaves = spec_of(Kind::kAllreduce, 2, 100'000'000);
  leaves.num_leaves = 3;
  leaves.leaf_runs = {{0, 2}, {2, 1}};
  EXPECT_STREQ((*select_algorithm(leaves, link, machine))->name, "fixed-tree");
  EXPECT_EQ(select_algorithm(spec_of(static_cast<Kind>(99), 2, 8), link, machine).status().code(),
            Code::kNotFound);
}

TEST(Selection, GathersByDistancesWhereRoundsCountAndAlongARingWhereMachinesShareALink) {
  const auto name = [](std::int64_t count, int per_machine) {
    ScheduleSpec spec = spec_of(Kind::kAllgather, 16, count);
    for (int r = 0; r < 16; ++r) spec.group_of[static_cast<std::size_t>(r)] = r / per_machine;
    cost::CommModel model;
    model.local.bytes_per_second = 50e9;
    model.local.latency_ns = kMicro;
    return std::string((*select_algorithm(spec, model))->name);
  };
  EXPECT_EQ(name(160, 1), "bruck");
  EXPECT_EQ(name(160, 4), "bruck");
  EXPECT_EQ(name(16'000'000, 4), "ring");
}

TEST(Selection, TakesTheHierarchyWhereMachinesShareALink) {
  // Four machines of eight ranks: a flat exchange would send everything of eight ranks over one link.
  ScheduleSpec spec = spec_of(Kind::kAllreduce, 32, 4'000'000);
  for (int r = 0; r < 32; ++r) spec.group_of[static_cast<std::size_t>(r)] = r / 8;
  cost::CommModel model;
  model.local.bytes_per_second = 50e9;
  const Choice choice = *choose(spec, algorithms_of(Kind::kAllreduce), model);
  EXPECT_STREQ(choice.algorithm->name, "hierarchical") << choice.reason;
  for (const Candidate& c : choice.candidates)
    if (std::string_view(c.algorithm->name) == "two-shot") {
      EXPECT_GT(c.time, 3 * choice.candidates[0].time);
    }
}

// Additions and messages free, powers of two: what the literature has.
TEST(Price, IsTheFormulaOfTheLiteratureForPowersOfTwo) {
  cost::CommModel model;
  model.link.message_overhead_ns = 0;
  model.reduce_seconds_per_byte = 1e-30;
  model.machine.op_overhead_ns = 0;
  for (const Formula& f : allreduce_formulas())
    for (const int world : {2, 4, 8, 16, 32})
      for (const std::int64_t count : {1 << 10, 1 << 20}) {
        ScheduleSpec spec = spec_of(Kind::kAllreduce, world, count);
        spec.group_of.clear();
        const double got =
            to_seconds(price_time((*find_algorithm(Kind::kAllreduce, f.algorithm))->price(spec), model));
        const double want = f.seconds(to_seconds(model.link.latency_ns), static_cast<double>(spec.bytes()),
                                      1 / model.link.bytes_per_second, world);
        EXPECT_NEAR(got, want, 1e-9 + want * 1e-6) << f.name << ", world " << world;
        EXPECT_GE(want * 1.000001, allreduce_bound().seconds(to_seconds(model.link.latency_ns),
                                                             static_cast<double>(spec.bytes()),
                                                             1 / model.link.bytes_per_second, world));
      }
}

TEST(Price, CountsIncastAndMessageOverheads) {
  const auto time = [](const char* name, int world, std::int64_t count) {
    ScheduleSpec spec = spec_of(Kind::kAllreduce, world, count);
    spec.group_of.clear();
    return price_parts((*find_algorithm(Kind::kAllreduce, name))->price(spec), cost::CommModel());
  };
  // Everybody hears 15 others: 15 overheads of 2 us and 15 times the bytes, in one latency.
  const PriceTime t = time("one-shot", 16, 100'000);
  EXPECT_EQ(t.latency, 25 * kMicro);
  EXPECT_EQ(t.messages, 15 * 2 * kMicro);
  EXPECT_EQ(t.bytes, 15 * 320 * kMicro);
  // Ranks that share two cores take turns, and the processors work for what comes in, too.
  const auto hosted = [](const char* name, int world) {
    cost::CommModel model;
    model.ranks_per_host = world;
    ScheduleSpec spec = spec_of(Kind::kAllreduce, world, 1000 * world);
    spec.group_of.clear();
    return price_parts((*find_algorithm(Kind::kAllreduce, name))->price(spec), model);
  };
  EXPECT_EQ(hosted("ring", 8).messages, 4 * time("ring", 8, 8000).messages);
  EXPECT_EQ(hosted("ring", 2).bytes, 2 * time("ring", 2, 2000).bytes);
  EXPECT_EQ(hosted("binomial", 2).bytes, time("binomial", 2, 2000).bytes);
}

TEST(Selection, OrdersTheCandidatesAndSaysWhy) {
  ScheduleSpec spec = spec_of(Kind::kAllreduce, 16, 1'000'000);
  spec.group_of.clear();
  const cost::LinkModel link;
  const cost::MachineModel machine;
  const auto rows = algorithms_of(Kind::kAllreduce);
  const Choice choice = *choose(spec, rows, link, machine);
  EXPECT_EQ(choice.algorithm, *select_algorithm(spec, link, machine));
  ASSERT_EQ(choice.candidates.size(), rows.size());
  EXPECT_EQ(choice.candidates[0].algorithm, choice.algorithm);
  for (std::size_t i = 1; i + 1 < rows.size(); ++i)
    EXPECT_LE(choice.candidates[i - 1].time, choice.candidates[i].time);
  // Without groups there is no hierarchy.
  EXPECT_STREQ(choice.candidates.back().algorithm->name, "hierarchical");
  EXPECT_FALSE(choice.candidates.back().applicable.ok());
  EXPECT_EQ(choice.reason.find(choice.algorithm->name), 0U) << choice.reason;
  EXPECT_NE(choice.reason.find(fmt::format("next is {}", choice.candidates[1].algorithm->name)),
            std::string::npos)
      << choice.reason;

  // Ring against butterfly only: rounds decide when there is little to send, bytes when there is much.
  const std::vector<const Algorithm*> two{*find_algorithm(Kind::kAllreduce, "ring"),
                                          *find_algorithm(Kind::kAllreduce, "butterfly")};
  spec.count = 100;
  EXPECT_STREQ(choose(spec, two, link, machine)->algorithm->name, "butterfly");
  spec.count = 10'000'000;
  EXPECT_STREQ(choose(spec, two, link, machine)->algorithm->name, "ring");

  const std::vector<const Algorithm*> wrong{*find_algorithm(Kind::kBroadcast, "binomial")};
  EXPECT_EQ(choose(spec, wrong, link, machine).status().code(), Code::kInvalid);
  EXPECT_EQ(choose(spec, {}, link, machine).status().code(), Code::kNotFound);
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
