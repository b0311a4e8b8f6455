// What overlap does to a step, by hand-computed timelines.
#include "trireme/plan/step_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::plan {
namespace {

using ::testing::ElementsAre;

// Three layers of one second forward and one second backward each; bucket 0 is the last layer.
StepShape three_layers(double exchange) {
  StepShape s;
  s.needed_at = {2, 1, 0};
  s.final_at = {4, 5, 6};
  s.exchange = {exchange, exchange, exchange};
  s.update = {0, 0, 0};
  s.compute = 6;
  return s;
}

TEST(ExchangeOrder, ByAgeOnAFastLinkByNextUseOnASlowOne) {
  EXPECT_THAT(exchange_order(three_layers(0.5)), ElementsAre(0, 1, 2))
      << "each is gone before the next comes";
  EXPECT_THAT(exchange_order(three_layers(1.5)), ElementsAre(0, 1, 2)) << "bucket 2 comes half a second late";
  EXPECT_THAT(exchange_order(three_layers(2)), ElementsAre(0, 2, 1));
  EXPECT_THAT(exchange_order(StepShape{}), ElementsAre());
}

TEST(StepSeconds, WithoutOverlapEverythingAddsUp) {
  EXPECT_DOUBLE_EQ(step_seconds(three_layers(2), {}, Overlap::kNone), 6 + 3 * 2);
}

TEST(StepSeconds, BucketsHideBehindTheBackwardPass) {
  // 4..6, 6..8, 8..10: bucket 0 is hidden.
  EXPECT_DOUBLE_EQ(step_seconds(three_layers(2), {}, Overlap::kBuckets), 10);
  EXPECT_DOUBLE_EQ(step_seconds(three_layers(0.5), {}, Overlap::kBuckets), 6.5) << "the last one never is";
}

TEST(StepSeconds, FullOverlapAlsoHidesBehindTheNextForwardPass) {
  // Bucket 0: 4..6, bucket 2: 6..8, bucket 1: 8..10. The next step starts at 8, needs bucket 1 at 9 and has
  // it at 10: three seconds late in all, of which the first layer covers one.
  const StepShape slow = three_layers(2);
  const auto order = exchange_order(slow);
  EXPECT_DOUBLE_EQ(step_seconds(slow, order, Overlap::kFull), 6 + 3);
  const std::vector<std::int32_t> by_age{0, 1, 2};
  EXPECT_DOUBLE_EQ(step_seconds(slow, by_age, Overlap::kFull), 6 + 4)
      << "the first layer waits for everything";
}

TEST(StepSeconds, NoLinkCarriesMoreThanItCan) {
  for (const double exchange : {3.0, 5.0, 9.0}) {
    const StepShape s = three_layers(exchange);
    const auto order = exchange_order(s);
    const double none = step_seconds(s, order, Overlap::kNone),
                 buckets = step_seconds(s, {}, Overlap::kBuckets),
                 full = step_seconds(s, order, Overlap::kFull);
    EXPECT_GE(full, 3 * exchange) << exchange;
    EXPECT_LE(full, buckets) << exchange;
    EXPECT_LT(buckets, none) << exchange;
  }
}

TEST(StepSeconds, UpdatesDelayTheNextStep) {
  StepShape s = three_layers(0);
  s.update = {0, 0, 0.25};
  EXPECT_DOUBLE_EQ(step_seconds(s, exchange_order(s), Overlap::kFull), 6.25);
}

TEST(StepSeconds, EncodingIsNotHiddenWhereTheCoresAreBusy) {
  StepShape shape{.needed_at = {0}, .final_at = {1}, .exchange = {0.1}, .update = {0}, .compute = 2};
  EXPECT_NEAR(step_seconds(shape, {}, Overlap::kBuckets), 2, 1e-9);
  shape.coding = 0.5;
  EXPECT_NEAR(step_seconds(shape, {}, Overlap::kBuckets), 2.5, 1e-9);
}

TEST(Overlap, NamesComeBack) {
  for (const Overlap o : {Overlap::kNone, Overlap::kBuckets, Overlap::kFull})
    EXPECT_EQ(*find_overlap(overlap_name(o)), o);
  EXPECT_EQ(find_overlap("all").status().code(), Code::kInvalid);
}

TEST(BestBucketBytes, BalancesStartUpsAgainstTheTail) {
  // 100 MB at 1 GB/s with 100 us to start: sqrt(1e-4 * 1e8 * 1e9).
  EXPECT_NEAR(static_cast<double>(best_bucket_bytes(100'000'000, 1e-4, 1e-9)), 3.16e6, 1e4);
  EXPECT_EQ(best_bucket_bytes(1000, 1e-6, 1e-9), 64 << 10) << "never tiny";
  EXPECT_EQ(best_bucket_bytes(1'000'000'000'000, 1, 1e-9), 32 << 20) << "never huge";
  EXPECT_EQ(best_bucket_bytes(1 << 20, 1, 0), 32 << 20) << "nothing travels";
  const auto cost = [](double bucket) { return 1e8 / bucket * 1e-4 + bucket * 1e-9; };
  const auto best = static_cast<double>(best_bucket_bytes(100'000'000, 1e-4, 1e-9));
  EXPECT_LT(cost(best), cost(best * 1.1));
  EXPECT_LT(cost(best), cost(best / 1.1));
}

}  // namespace
}  // namespace trireme::plan
