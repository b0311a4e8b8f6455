#include "trireme/plan/balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/plan/plan.h"

namespace trireme::plan {
namespace {

using ::testing::ElementsAre;

std::vector<std::int32_t> counts(std::int32_t shards, const std::vector<WorkerSpeed>& workers) {
  std::vector<std::int32_t> out;
  std::int32_t next = 0;
  for (const auto& run : cut_by_speed(shards, workers)) {
    EXPECT_EQ(run.first, next);
    next += run.count;
    out.push_back(run.count);
  }
  EXPECT_EQ(next, shards);
  return out;
}

TEST(CutBySpeed, EqualWorkersGetEvenRuns) {
  for (std::int32_t shards = 3; shards < 12; ++shards) {
    const auto even = parallel::even_runs(shards, 3);
    EXPECT_THAT(counts(shards, {{1, 1}, {1, 1}, {1, 1}}),
                ElementsAre(even[0].count, even[1].count, even[2].count));
  }
}

TEST(CutBySpeed, SlowerWorkersGetLessButNeverNothing) {
  EXPECT_THAT(counts(8, {{1, 1}, {3, 1}}), ElementsAre(6, 2));
  EXPECT_THAT(counts(8, {{1, 1}, {1, 1}, {100, 1}}), ElementsAre(4, 3, 1));
  EXPECT_THAT(counts(2, {{1, 1}, {100, 1}}), ElementsAre(1, 1));
}

TEST(CutBySpeed, AWorkerThatRunsSeveralAtOnceFillsItsWaves) {
  EXPECT_THAT(counts(6, {{1, 4}, {1, 2}}), ElementsAre(4, 2));
  EXPECT_THAT(counts(7, {{2, 2}, {1, 1}}), ElementsAre(4, 3));
}

// Against every other cut.
TEST(CutBySpeed, NoCutEndsEarlier) {
  const std::vector<std::vector<WorkerSpeed>> cases = {
      {{1, 1}, {2, 1}, {3, 1}}, {{5, 2}, {2, 1}, {1, 3}}, {{1, 1}, {1.01, 1}, {0.5, 2}}};
  for (const auto& workers : cases)
    for (std::int32_t shards = 3; shards <= 14; ++shards) {
      const double best = slowest_seconds(cut_by_speed(shards, workers), workers);
      for (std::int32_t a = 1; a < shards - 1; ++a)
        for (std::int32_t b = 1; a + b < shards; ++b) {
          const std::vector<collective::LeafRun> other{{0, a}, {a, b}, {a + b, shards - a - b}};
          EXPECT_LE(best, slowest_seconds(other, workers) * (1 + 1e-12)) << shards;
        }
    }
}

}  // namespace
}  // namespace trireme::plan
