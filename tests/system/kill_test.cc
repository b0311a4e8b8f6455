// Runs killed at random moments, processes and disk for real: the same command ends in the same bits.
#include <gtest/gtest.h>

#include "tests/system/kill_campaign.h"

namespace trireme::system_test {
namespace {

TEST(Kill, AtTwelveRandomMomentsTheSameCommandEndsInTheSameBits) {
  const KillReport report = run_kill_campaign(12, 1);
  EXPECT_EQ(report.kills, 12);
  EXPECT_GE(report.runs, 1);
  EXPECT_GE(report.steps_saved, 1);
}

}  // namespace
}  // namespace trireme::system_test
