#include "trireme/prepare/meetings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::prepare {
namespace {

using ::testing::HasSubstr;

graph::Graph graph_of(bool with_sum) {
  graph::Graph g;
  graph::Builder b(g);
  const graph::Value x = b.input("x", DType::kF32, {2});
  b.output("y", with_sum ? b.add_node(op::kAllreduce, {x}) : b.add(x, x));
  return g;
}

Status check(bool with_sum, plan::Timetable timetable, std::int32_t shards, int world) {
  plan::Plan plan;
  plan.agreement = timetable == plan::Timetable::kLeased ? "downpour" : "bsp";
  plan.timetable = timetable;
  plan.logical_shards = shards;
  return check_meetings(graph_of(with_sum), plan, parallel::even_runs(shards, world));
}

TEST(Meetings, NeedAsManyShardsOnEveryWorker) {
  EXPECT_TRUE(check(true, plan::Timetable::kLockStep, 6, 3).ok());
  EXPECT_TRUE(check(true, plan::Timetable::kLockStep, 5, 1).ok()) << "one worker meets nobody";
  EXPECT_TRUE(check(false, plan::Timetable::kLockStep, 5, 3).ok())
      << "graphs without collectives meet nobody";
  const Status uneven = check(true, plan::Timetable::kLockStep, 5, 3);
  EXPECT_EQ(uneven.code(), Code::kInvalid);
  EXPECT_THAT(uneven.message(), HasSubstr("got 2, 2, 1 shards, expected as many on each of 3 workers"));
}

TEST(Meetings, DoNotComeAboutWhereWorkersGoAtTheirOwnPace) {
  EXPECT_TRUE(check(false, plan::Timetable::kLeased, 3, 3).ok());
  EXPECT_TRUE(check(true, plan::Timetable::kLeased, 3, 1).ok());
  const Status leased = check(true, plan::Timetable::kLeased, 3, 3);
  EXPECT_EQ(leased.code(), Code::kInvalid);
  EXPECT_THAT(leased.message(), HasSubstr("parallel.agreement = \"downpour\" lets each go at its own pace"));
}

}  // namespace
}  // namespace trireme::prepare
