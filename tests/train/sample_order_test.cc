#include "trireme/job/sample_order.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/train/tiny_jobs.h"

namespace trireme::train {
namespace {

struct Case {
  std::int64_t num_train, batch;
  std::int32_t shards;
  const char* partition;
  bool fill_tails;
};

const Case kCases[] = {
    {40, 12, 4, "random", false},  {40, 12, 4, "by-class", false}, {40, 12, 4, "random", true},
    {40, 12, 4, "by-class", true}, {41, 10, 3, "random", true},    {41, 10, 3, "by-class", true},
    {7, 16, 5, "random", false},   {7, 16, 5, "by-class", true},   {24, 6, 1, "random", false}};

job::SampleOrder order_of(const Case& c, const data::Dataset& data) {
  job::Job job;
  job.train.batch = c.batch;
  job.data.partition = c.partition;
  Result<job::SampleOrder> order = job::SampleOrder::make(data, job, c.shards, c.fill_tails);
  EXPECT_TRUE(order.ok()) << order.status().to_string();
  return *order;
}

TEST(SampleOrder, EverySampleCountsOncePerEpochForEveryPartition) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(
        fmt::format("{} samples, batch {}, {} shards, {}", c.num_train, c.batch, c.shards, c.partition));
    const auto data = testing::tiny_pictures(c.num_train, 3);
    const job::SampleOrder order = order_of(c, *data);
    EXPECT_EQ(order.shard_batch(), (c.batch + c.shards - 1) / c.shards);
    for (const std::int64_t epoch : {0, 1, 5}) {
      std::map<std::int64_t, int> seen;
      for (std::int64_t b = 0; b < order.batches_per_epoch(); ++b) {
        std::int64_t in_batch = 0;
        for (std::int32_t s = 0; s < c.shards; ++s) {
          const data::ShardSamples samples = order.shard(epoch, b, s);
          ASSERT_EQ(samples.ids.size(), static_cast<std::size_t>(order.shard_batch()));
          for (std::int64_t i = 0; i < samples.num_valid; ++i)
            ++seen[samples.ids[static_cast<std::size_t>(i)]];
          in_batch += samples.num_valid;
        }
        EXPECT_EQ(in_batch, order.samples_in_batch(b)) << "batch " << b;
        EXPECT_GT(in_batch, 0) << "batch " << b;
      }
      ASSERT_EQ(seen.size(), static_cast<std::size_t>(c.num_train)) << "epoch " << epoch;
      for (const auto& [id, times] : seen) {
        EXPECT_TRUE(id >= 0 && id < c.num_train && times == 1)
            << "sample " << id << ", " << times << " times";
      }
    }
  }
}

TEST(SampleOrder, WhereTailsAreFilledTheRestAreSamplesThatDoNotCountAndElseItIsPadding) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(
        fmt::format("{} samples, {} shards, {}, {}", c.num_train, c.shards, c.partition, c.fill_tails));
    const auto data = testing::tiny_pictures(c.num_train, 3);
    const job::SampleOrder order = order_of(c, *data);
    for (std::int64_t b = 0; b < order.batches_per_epoch(); ++b)
      for (std::int32_t s = 0; s < c.shards; ++s) {
        const data::ShardSamples samples = order.shard(1, b, s);
        for (std::size_t i = static_cast<std::size_t>(samples.num_valid); i < samples.ids.size(); ++i) {
          if (c.fill_tails)
            EXPECT_TRUE(samples.ids[i] >= 0 && samples.ids[i] < c.num_train) << samples.ids[i];
          else
            EXPECT_EQ(samples.ids[i], -1);
        }
      }
  }
}

TEST(SampleOrder, ByClassEveryShardKeepsItsOwnSamplesOfFewClassesInAnOrderOfItsOwn) {
  const Case c{80, 16, 4, "by-class", true};
  const auto data = testing::tiny_pictures(c.num_train, 3);
  const job::SampleOrder order = order_of(c, *data);
  std::set<std::int64_t> all;
  for (std::int32_t s = 0; s < c.shards; ++s) {
    std::vector<std::int64_t> epochs[2];
    std::set<std::int32_t> classes;
    for (const std::int64_t epoch : {0, 1})
      for (std::int64_t b = 0; b < order.batches_per_epoch(); ++b)
        for (const std::int64_t id : order.shard(epoch, b, s).ids) {
          epochs[epoch].push_back(id);
          classes.insert(data->label_of(id));
        }
    EXPECT_LE(classes.size(), 2U) << "of 4, in 4 shards";
    EXPECT_NE(epochs[0], epochs[1]);
    const std::set<std::int64_t> first(epochs[0].begin(), epochs[0].end()),
        second(epochs[1].begin(), epochs[1].end());
    EXPECT_EQ(first, second) << "its own samples, filled tails included";
    all.insert(first.begin(), first.end());
  }
  EXPECT_EQ(all.size(), 80U);
}

}  // namespace
}  // namespace trireme::train
