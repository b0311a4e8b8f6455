// Every rule says what it sends.
#include "trireme/agree/traffic.h"

#include <gtest/gtest.h>

namespace trireme::agree {
namespace {

using Path = cost::Traffic::Path;

cost::Traffic of(std::string_view rule, const RuleOptions& options = {}, int workers = 8) {
  return traffic_of(**find_agreement(rule), options, workers);
}

TEST(Traffic, EveryRuleTakesItsWay) {
  const std::pair<const char*, Path> ways[] = {{"bsp", Path::kAllreduce},
                                               {"averaging", Path::kAllreduce},
                                               {"easgd", Path::kAllreduce},
                                               {"conservative", Path::kAllreduce},
                                               {"hogwild", Path::kNone},
                                               {"bsp-server", Path::kServers},
                                               {"ssp", Path::kServers},
                                               {"downpour", Path::kServers},
                                               {"staleness-aware", Path::kServers},
                                               {"soft", Path::kServers},
                                               {"late", Path::kServers},
                                               {"easgd-async", Path::kServers},
                                               {"gossip", Path::kPeers},
                                               {"decentralized", Path::kPeers},
                                               {"ssp-peer", Path::kPeers},
                                               {"none", Path::kNone}};
  EXPECT_EQ(std::size(ways), agreement_table().size()) << "a rule is missing here";
  for (const auto& [rule, way] : ways) EXPECT_EQ(of(rule).path, way) << rule;
}

TEST(Traffic, PeriodsAndIntervalsMakeItRare) {
  RuleOptions o;
  o.own.set("period", 50);
  EXPECT_EQ(of("averaging", o).every, 50);
  EXPECT_EQ(of("easgd-async", o).every, 50);
  EXPECT_EQ(of("gossip", o).every, 50);
  EXPECT_EQ(of("bsp", o).every, 1);
  EXPECT_EQ(of("none", o).every, 1);
  o.own.set("period", 0);
  EXPECT_EQ(of("averaging", o).every, 0) << "chosen while running";
  o.own.set("push_steps", 4);
  o.own.set("fetch_steps", 4);
  EXPECT_EQ(of("downpour", o).every, 4);
  o.own.set("fetch_steps", 1);
  EXPECT_EQ(of("downpour", o).every, 1.6) << "five ways in four steps, where eight are one per step each way";
}

TEST(Traffic, WhoWaitsForWhom) {
  EXPECT_TRUE(of("bsp").gradients);
  EXPECT_FALSE(of("averaging").gradients);
  EXPECT_TRUE(of("easgd").hidden);
  EXPECT_TRUE(of("downpour").alone);
  EXPECT_FALSE(of("downpour").updates_here);
  EXPECT_FALSE(of("ssp").alone);
  EXPECT_EQ(of("late").quorum, 0.75);
  EXPECT_TRUE(of("decentralized").skips);
  EXPECT_FALSE(of("ssp-peer").skips);
  EXPECT_EQ(of("ssp-peer").copies, 7);
  EXPECT_EQ(of("gossip").copies, 1);
}

TEST(Traffic, OneWorkerSendsNothingUnlessToServers) {
  EXPECT_EQ(of("bsp", {}, 1).path, Path::kNone);
  EXPECT_EQ(of("downpour", {}, 1).path, Path::kServers);
}

}  // namespace
}  // namespace trireme::agree
