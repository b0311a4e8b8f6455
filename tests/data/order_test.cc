#include "trireme/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace trireme::data {
namespace {

std::vector<std::int64_t> valid_ids_of_step(const BatchCut& cut, std::uint64_t seed, std::int64_t epoch,
                                            std::int64_t step) {
  std::vector<std::int64_t> ids;
  for (std::int32_t shard = 0; shard < cut.num_shards; ++shard) {
    const ShardSamples samples = samples_of_shard(cut, seed, epoch, step, shard);
    ids.insert(ids.end(), samples.ids.begin(), samples.ids.begin() + samples.num_valid);
  }
  return ids;
}

std::vector<std::int64_t> epoch_of(const BatchCut& cut, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> ids;
  for (std::int64_t step = 0; step < cut.steps_per_epoch(); ++step) {
    const auto of_step = valid_ids_of_step(cut, seed, epoch, step);
    ids.insert(ids.end(), of_step.begin(), of_step.end());
  }
  return ids;
}

std::vector<BatchCut> cuts() {
  return {{1, 1, 1},    {1, 8, 8},    {7, 3, 2},      {10, 10, 4},   {64, 16, 4},
          {100, 32, 5}, {101, 32, 6}, {997, 128, 12}, {1000, 10, 9}, {33, 64, 3}};
}

TEST(Order, EverySampleOfAnEpochComesExactlyOnce) {
  for (const BatchCut& cut : cuts()) {
    std::vector<std::int64_t> ids = epoch_of(cut, 7, 3);
    std::sort(ids.begin(), ids.end());
    std::vector<std::int64_t> all(static_cast<std::size_t>(cut.num_samples));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(ids, all) << cut.num_samples << " in batches of " << cut.batch << ", " << cut.num_shards
                        << " shards";
  }
}

TEST(Order, TheShardsOfAStepJoinToTheSameSequenceHoweverManyThereAre) {
  const BatchCut one{101, 24, 1};
  for (std::int64_t step = 0; step < one.steps_per_epoch(); ++step) {
    const auto whole = valid_ids_of_step(one, 5, 2, step);
    ASSERT_EQ(static_cast<std::int64_t>(whole.size()), one.samples_in_step(step));
    for (const std::int32_t shards : {2, 3, 5, 7, 24}) {
      BatchCut cut = one;
      cut.num_shards = shards;
      EXPECT_EQ(valid_ids_of_step(cut, 5, 2, step), whole) << shards << " shards, step " << step;
    }
  }
}

TEST(Order, EveryShardHasTheSameSizeAndItsPaddingAtTheEnd) {
  for (const BatchCut& cut : cuts())
    for (std::int64_t step = 0; step < cut.steps_per_epoch(); ++step)
      for (std::int32_t shard = 0; shard < cut.num_shards; ++shard) {
        const ShardSamples s = samples_of_shard(cut, 1, 0, step, shard);
        ASSERT_EQ(static_cast<std::int64_t>(s.ids.size()), cut.shard_batch());
        for (std::int64_t i = 0; i < cut.shard_batch(); ++i)
          EXPECT_EQ(s.ids[static_cast<std::size_t>(i)] >= 0, i < s.num_valid)
              << "step " << step << ", shard " << shard << ", place " << i;
      }
}

TEST(Order, AShortTailLeavesItsLastShardsEmpty) {
  const BatchCut cut{10, 8, 4};  // the second step has two samples for four shards of two
  EXPECT_EQ(cut.steps_per_epoch(), 2);
  EXPECT_EQ(cut.samples_in_step(0), 8);
  EXPECT_EQ(cut.samples_in_step(1), 2);
  EXPECT_EQ(cut.samples_in_step(2), 0);
  EXPECT_EQ(samples_of_shard(cut, 1, 0, 1, 0).num_valid, 2);
  EXPECT_EQ(samples_of_shard(cut, 1, 0, 1, 1).num_valid, 0);
  EXPECT_EQ(samples_of_shard(cut, 1, 0, 1, 3).ids, (std::vector<std::int64_t>{-1, -1}));
}

TEST(Order, IsNewForEveryEpochAndEverySeedAndTheSameWhenAskedAgain) {
  const BatchCut cut{1000, 100, 4};
  const auto first = epoch_of(cut, 1, 0);
  EXPECT_EQ(epoch_of(cut, 1, 0), first);
  for (const auto& other : {epoch_of(cut, 1, 1), epoch_of(cut, 1, 2), epoch_of(cut, 2, 0)}) {
    int same_place = 0;
    for (std::size_t i = 0; i < first.size(); ++i) same_place += first[i] == other[i];
    EXPECT_LT(same_place, 15);  // one expected by chance
  }
}

TEST(Order, SpreadsNeighboursOverTheEpoch) {
  int ascending = 0;
  for (std::int64_t i = 0; i + 1 < 1000; ++i)
    ascending += sample_at(9, 0, 1000, i) < sample_at(9, 0, 1000, i + 1);
  EXPECT_GT(ascending, 400);
  EXPECT_LT(ascending, 600);
}

TEST(OrderDeathTest, AShardOutsideTheBatchIsABrokenInvariant) {
  const BatchCut cut{10, 4, 2};
  EXPECT_DEATH(samples_of_shard(cut, 1, 0, 0, 2), "shard 2 of 2");
}

}  // namespace
}  // namespace trireme::data
