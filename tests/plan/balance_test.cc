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

// Ranks 0 and 1 are replica 0, ranks 2 and 3 replica 1.
TEST(ReplicaSpeeds, AReplicaIsAsFastAsItsSlowestRank) {
  const parallel::Mesh mesh{{{"data", 2}, {"model", 2}}};
  const std::vector<WorkerSpeed> by_rank{{1, 4}, {1, 2}, {1, 2}, {3, 2}};
  const std::vector<WorkerSpeed> speeds = replica_speeds(by_rank, mesh);
  ASSERT_EQ(speeds.size(), 2U);
  EXPECT_EQ(speeds[0].wave_seconds, 1);
  EXPECT_EQ(speeds[0].at_once, 2);
  EXPECT_EQ(speeds[1].wave_seconds, 3);
  EXPECT_THAT(counts(8, speeds), ElementsAre(6, 2)) << "shards move between data coordinates";
}

TEST(ReplicaSpeeds, OfReplicasOfOneRankAreThoseOfTheRanks) {
  const std::vector<WorkerSpeed> by_rank{{1, 4}, {2, 1}, {0.5, 3}};
  const std::vector<WorkerSpeed> speeds = replica_speeds(by_rank, parallel::data_mesh(3));
  ASSERT_EQ(speeds.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(speeds[i].wave_seconds, by_rank[i].wave_seconds);
    EXPECT_EQ(speeds[i].at_once, by_rank[i].at_once);
  }
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
