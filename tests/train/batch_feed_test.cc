#include "trireme/engine/batch_feed.h"

#include <gtest/gtest.h>

#include "tests/train/one_machine.h"
#include "tests/train/tiny_jobs.h"
#include "trireme/job/job_parts.h"

namespace trireme::train {
namespace {

using runtime::Runtime;
using runtime::Task;

constexpr std::int64_t kFirst = 3, kEnd = 11;

struct Fixture {
  job::Job job = testing::tiny_job();
  std::shared_ptr<data::Dataset> data = testing::tiny_pictures(40, 3);
  engine::BatchFeedOptions options;

  explicit Fixture(bool fill_tails = false) {
    data->augment = {.shift = 1, .crop = 0.8, .flip = true};
    options.input = *job::model_input(job, *data);
    options.data = data;
    options.order = *job::SampleOrder::make(*data, job, 4, fill_tails);
    options.shards = {1, 2};
    options.seed = 5;
  }
};

// What the feed must give, filled at once.
void expect_batch(const Fixture& f, std::int64_t batch, std::int32_t shard,
                  const prepare::BatchTensors& got) {
  SCOPED_TRACE(fmt::format("batch {}, shard {}", batch, shard));
  const std::int64_t per_epoch = f.options.order.batches_per_epoch(), epoch = batch / per_epoch;
  const data::ShardSamples samples = f.options.order.shard(epoch, batch % per_epoch, shard);
  const prepare::BatchTensors expected =
      *prepare::allocate_batch(cpu_device(), f.options.input, static_cast<std::int64_t>(samples.ids.size()));
  data::fill_batch(*f.data, samples.ids, {.augment = true, .seed = 5, .epoch = epoch},
                   prepare::view_of(expected, f.options.input));
  const auto same = [](const Tensor& a, const Tensor& b) {
    return std::equal(a.raw(), a.raw() + a.type().num_bytes(), b.raw());
  };
  EXPECT_TRUE(same(got.x, expected.x));
  EXPECT_TRUE(same(got.labels, expected.labels));
  for (std::size_t i = 0; i < samples.ids.size(); ++i) {
    EXPECT_EQ(got.sample_ids.values<std::int64_t>()[i], samples.ids[i]);
    EXPECT_EQ(got.weights.values<float>()[i], static_cast<std::int64_t>(i) < samples.num_valid ? 1.0F : 0.0F);
  }
}

Task<void> compare(Runtime& rt, const Fixture& f, int depth, int& compared) {
  engine::BatchFeedOptions options = f.options;
  options.depth = depth;
  auto feed = engine::BatchFeed::make(rt, std::move(options));
  EXPECT_TRUE(feed.ok());
  if (!feed.ok()) co_return;
  (*feed)->start(kFirst, kEnd);
  for (std::int64_t batch = kFirst; batch < kEnd; ++batch) {
    auto next = co_await (*feed)->next();
    EXPECT_TRUE(next.ok()) << next.status().to_string();
    if (!next.ok()) co_return;
    EXPECT_EQ(next->size(), 2U);
    for (std::size_t s = 0; s < next->size(); ++s, ++compared) {
      expect_batch(f, batch, 1 + static_cast<std::int32_t>(s), (*next)[s]);
      // The consumer may scale weights: the next batch in this memory must not see it.
      for (float& w : (*next)[s].weights.values<float>()) w *= 0.25F;
    }
    (*feed)->release();
  }
  auto beyond = co_await (*feed)->next();
  EXPECT_EQ(beyond.status().code(), Code::kNotFound) << "the run has no more batches";
}

// One that is asked for at once is waited for; after a pause the batches made ahead are there.
Task<void> count_waits(Runtime& rt, const Fixture& f) {
  auto feed = engine::BatchFeed::make(rt, f.options);
  EXPECT_TRUE(feed.ok());
  if (!feed.ok()) co_return;
  (*feed)->start(0, 8);
  auto first = co_await (*feed)->next();
  EXPECT_TRUE(first.ok());
  EXPECT_EQ((*feed)->counters().waits, 1);
  EXPECT_GT((*feed)->counters().waited_ns, 0);
  const TimeNs waited = (*feed)->counters().waited_ns;
  for (int i = 0; i < 4; ++i) {
    (*feed)->release();
    co_await rt.sleep_for(kSecond);
    auto next = co_await (*feed)->next();
    EXPECT_TRUE(next.ok());
  }
  EXPECT_EQ((*feed)->counters().batches, 5);
  EXPECT_EQ((*feed)->counters().waits, 1);
  EXPECT_EQ((*feed)->counters().waited_ns, waited);
}

TEST(BatchFeed, GivesWhatFillingAtOnceGivesForAnyDepth) {
  for (const bool fill_tails : {false, true}) {
    const Fixture f(fill_tails);
    for (const int depth : {0, 1, 2, 20}) {
      int compared = 0;
      testing::run_on_one_machine([&](Runtime& rt) { return compare(rt, f, depth, compared); });
      EXPECT_EQ(compared, 2 * (kEnd - kFirst)) << depth;
    }
  }
}

TEST(BatchFeed, CountsOnlyBatchesThatWereNotReady) {
  const Fixture f;
  testing::run_on_one_machine([&](Runtime& rt) { return count_waits(rt, f); });
}

}  // namespace
}  // namespace trireme::train
