#include "trireme/record/worker_reports.h"

#include <gtest/gtest.h>

namespace trireme::record {
namespace {

std::string words(std::int64_t lead, std::int64_t sent, double seconds, const char* name) {
  agree::RuleReport rule;
  rule.more = {{"max_lead", lead}, {"sent", sent}, {"waited_seconds", seconds}, {"manner", name}};
  rule.largest = {"max_lead"};
  return final_words(WorkerShare(), rule);
}

TEST(WorkerReports, NumbersAreAddedAndTheLargestIsTakenWhereTheRuleSaysSo) {
  Summary summary;
  add_worker_reports(
      {{0, words(2, 10, 0.5, "first")}, {1, words(1, 20, 0.25, "second")}, {2, words(2, 5, 0, "")}}, {}, 3,
      summary);
  EXPECT_EQ(summary.rule["max_lead"], 2);
  EXPECT_EQ(summary.rule["sent"], 35);
  EXPECT_EQ(summary.rule["waited_seconds"], 0.75);
  EXPECT_EQ(summary.rule["manner"], "first");
}

TEST(WorkerReports, AWorkerThatSaidNothingAddsNothing) {
  Summary summary;
  add_worker_reports({{1, words(3, 1, 0, "x")}}, {0}, 2, summary);
  EXPECT_EQ(summary.rule["max_lead"], 3);
  ASSERT_EQ(summary.per_worker.size(), 2U);
  EXPECT_TRUE(summary.per_worker[0].lost);
}

}  // namespace
}  // namespace trireme::record
