// docs/format_checkpoint.md, section 7.
#include "trireme/start/rank_error.h"

#include <gtest/gtest.h>

namespace trireme::start {
namespace {

Status failure() {
  ErrorContext context;
  context.peer = 2;
  context.operation = "sum of bucket 0";
  context.reason = "connection closed";
  return Status(Code::kPeerLost, "[comm] rank 2 was lost", context);
}

TEST(RankError, HasTheCoordinatesOfTheRankWhereTheMeshHasSeveralAxes) {
  job::Job job;
  job.parallel.workers = 4;
  const job::Roles roles = job::roles_of(job, parallel::Mesh{{{"data", 2}, {"model", 2}}});
  const Json json = rank_error(3, failure(), roles);
  EXPECT_EQ(json.at("coordinates"), (Json{{"data", 1}, {"model", 1}}));
  EXPECT_EQ(json.at("rank"), 3);
  EXPECT_EQ(json.at("culprit"), 2);
}

TEST(RankError, HasNoneWhereReplicasAreRanks) {
  job::Job job;
  job.parallel.workers = 4;
  const Json json = rank_error(3, failure(), job::roles_of(job));
  EXPECT_FALSE(json.contains("coordinates"));
  EXPECT_EQ(json.size(), 6U);
  EXPECT_EQ(json.at("operation"), "sum of bucket 0");
  EXPECT_EQ(json.at("reason"), "connection closed");
  EXPECT_EQ(json.at("message"), "[comm] rank 2 was lost");
}

}  // namespace
}  // namespace trireme::start
