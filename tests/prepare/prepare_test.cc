#include "trireme/prepare/prepare.h"

#include <gtest/gtest.h>

namespace trireme::prepare {
namespace {

TEST(Prepare, StatisticsOfBatchNormTravelInTheLastBucket) {
  job::Job job;
  job.model.name = "resnet18";
  const auto prepared = prepare(job, {Shape{1, 28, 28}, 10}, {});
  ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
  const auto& buckets = (*prepared)->plan.buckets;
  EXPECT_TRUE(buckets.front().statistics.empty());
  EXPECT_EQ(buckets.back().statistics.size(), (*prepared)->statistics.size());
  EXPECT_EQ(buckets.back().statistics.front(), "bn1/mean");
  EXPECT_GT(buckets.back().metrics_offset, buckets.back().statistic_offsets.back());
  ASSERT_NE((*prepared)->statistics_updates.back(), nullptr);
}

TEST(Prepare, OnlyJobsThatNeedItHoldUpdatesUntilAllBucketsAreThere) {
  job::Job job;
  EXPECT_EQ((*prepare(job, {Shape{1, 28, 28}, 10}, {}))->finite_check, nullptr);
  job.train.optimizer.clip_norm = 1;
  EXPECT_NE((*prepare(job, {Shape{1, 28, 28}, 10}, {}))->finite_check, nullptr);
}

}  // namespace
}  // namespace trireme::prepare
