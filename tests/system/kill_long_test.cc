// The long form of kill_test.cc.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/system/kill_campaign.h"

namespace trireme::system_test {
namespace {

TEST(KillLong, AtAHundredRandomMomentsTheSameCommandEndsInTheSameBits) {
  const KillReport report = run_kill_campaign(100, 2);
  EXPECT_EQ(report.kills, 100);
  EXPECT_GE(report.runs, 2);
  EXPECT_GE(report.steps_saved, 20);
  std::cout << report.kills << " kills, " << report.steps_saved << " after a checkpoint, " << report.runs
            << " runs\n";
}

}  // namespace
}  // namespace trireme::system_test
