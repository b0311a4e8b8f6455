// Gradients of micro-batches that are added as they come: in runs, and dealt out by turns.
#include "trireme/comm/sum/segment_sum.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/comm/ranks.h"
#include "trireme/base/rng.h"
#include "trireme/comm/sum/gradient_memory.h"

namespace trireme::comm {
namespace {

using collective::LeafRun;
using runtime::Task;

constexpr std::int64_t kElems = 150, kDivided = 131;  // the others are needed by everybody

// Values whose sum depends on the order of additions.
float value_of(std::int32_t shard, std::int32_t segment, std::int64_t i) {
  Philox rng(static_cast<std::uint64_t>(shard) << 32 | static_cast<std::uint64_t>(segment) << 16 |
                 static_cast<std::uint64_t>(i),
             9);
  return rng.next_uniform() - 0.5F;
}

struct Case {
  int world = 1;
  std::int32_t shards = 1;
  bool dealt = false;
  std::vector<std::int32_t> segments{0};
  std::string transport = "inproc";
};

// What the rank has of the sum, after two steps of the same gradients.
Task<void> add_up(runtime::Runtime& rt, Group& group, const Case& c, std::vector<float>& out) {
  SumSpec spec;
  spec.slots.first = 3;
  spec.slots.read = 7;
  spec.label = "bucket 3";
  spec.num_elems = kElems;
  spec.num_shards = c.shards;
  SegmentSumOptions options;
  options.segments = c.segments;
  std::vector<LeafRun> owners;
  const std::int32_t each = c.shards / group.world();
  for (std::int32_t rank = 0; rank < group.world(); ++rank) owners.push_back({rank * each, each});
  if (c.dealt) {
    options.dealt = true;
    spec.scattered = kDivided;
    const auto places = static_cast<std::int64_t>(c.segments.size());
    spec.vectors_in = std::make_shared<GradientMemory>(rt, group, places * 160);
    for (std::int64_t i = 0; i < places; ++i) options.written_at.push_back(i * 160);
  }
  SegmentSum sum(rt, group, spec, options);
  const LeafRun run = owners[static_cast<std::size_t>(group.rank())];
  EXPECT_TRUE(sum.take_shards(run).ok());
  for (std::uint32_t step = 0; step < 2; ++step) {
    for (std::int32_t k = 0; k < run.count; ++k)
      for (const std::int32_t segment : c.segments) {
        const std::int32_t shard = c.dealt ? k * group.world() + group.rank() : run.first + k;
        const std::span<float> to = sum.memory_of(segment).values<float>();
        for (std::int64_t i = 0; i < kElems; ++i)
          to[static_cast<std::size_t>(i)] = value_of(shard, segment, i);
        const Status added = co_await sum.add(segment, step);
        EXPECT_TRUE(added.ok()) << added.to_string();
      }
    SumCall call;
    call.step = step;
    call.owners = owners;
    const Status summed = co_await sum.sum(std::move(call));
    EXPECT_TRUE(summed.ok()) << summed.to_string();
  }
  const Chunk own =
      c.dealt ? chunk_of(kDivided, sizeof(float), group.rank(), group.world()) : Chunk{0, kDivided};
  for (std::int64_t i = 0; i < kElems; ++i)
    if ((i >= own.begin && i < own.end) || i >= kDivided)
      out[static_cast<std::size_t>(i)] = *sum.summed(i, {DType::kF32, {1}}).data<float>();
  EXPECT_TRUE((co_await group.leave()).ok());
}

// Every element from a rank that has it; all that have it agree.
std::vector<float> sum_of(const Case& c) {
  constexpr float kNone = 1e9F;
  std::vector<std::vector<float>> ranks(static_cast<std::size_t>(c.world), std::vector<float>(kElems, kNone));
  testing::RankOptions options;
  options.world = c.world;
  options.transport = c.transport;
  testing::expect_finished(testing::run_virtual(options, {}, [&](runtime::Runtime& rt, Group& group) {
    return add_up(rt, group, c, ranks[static_cast<std::size_t>(group.rank())]);
  }));
  std::vector<float> all(kElems, kNone);
  for (const std::vector<float>& rank : ranks)
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (rank[i] == kNone) continue;
      EXPECT_TRUE(all[i] == kNone || all[i] == rank[i]) << "element " << i;
      all[i] = rank[i];
    }
  EXPECT_EQ(std::count(all.begin(), all.end(), kNone), 0);
  return all;
}

TEST(SegmentSum, DealtOutHasTheBitsOfOneWorker) {
  for (const std::int32_t turns : {1, 2, 3, 4, 5, 7, 8})
    for (const int world : {2, 4, 8}) {
      const std::int32_t shards = turns * world;
      const std::vector<float> expected = sum_of({.world = 1, .shards = shards});
      EXPECT_EQ(sum_of({.world = world, .shards = shards, .dealt = true}), expected)
          << turns << " turns of " << world << " workers";
      EXPECT_EQ(sum_of({.world = world, .shards = shards}), expected) << "in runs";
    }
  const std::vector<float> expected = sum_of({.world = 1, .shards = 12});
  EXPECT_EQ(sum_of({.world = 4, .shards = 12, .dealt = true, .transport = "shm"}), expected) << "shm";
}

TEST(SegmentSum, OfSeveralSegmentsAddsThemInTheirOrder) {
  const std::vector<std::int32_t> segments{0, 2, 5};
  const std::vector<float> expected = sum_of({.world = 1, .shards = 8, .segments = segments});
  EXPECT_NE(expected, sum_of({.world = 1, .shards = 8}));
  for (const int world : {2, 4, 8})
    EXPECT_EQ(sum_of({.world = world, .shards = 8, .dealt = true, .segments = segments}), expected);
}

TEST(Counter, HoldsTheLogarithmOfTheShards) {
  for (const std::int32_t shards : {1, 2, 3, 4, 8, 9, 32}) {
    std::int32_t most = 1;
    while ((1 << most) < shards) ++most;
    EXPECT_LE(count_up({0, shards}, shards).num_vectors, most) << shards;
    EXPECT_EQ(count_up({0, shards}, shards).partials.size(), 1U);
  }
}

}  // namespace
}  // namespace trireme::comm
