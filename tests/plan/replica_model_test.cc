// Steps of rules, priced by hand: one second of work, one bucket of 1 GB, links of 1 GB/s.
#include "trireme/plan/replica_model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme::plan {
namespace {

using Path = cost::Traffic::Path;

struct World {
  Plan plan;
  StepCosts costs;
  Replicas replicas;

  explicit World(int workers, Path path) {
    plan.logical_shards = workers;
    plan.owners = parallel::even_runs(workers, workers);
    plan.buckets.emplace_back();
    plan.buckets[0].num_elems = 250'000'000;
    plan.buckets[0].collective = "ring";
    costs.strands.push_back({.flops = 1e9});
    costs.needed_before = {0};
    costs.final_after = {0};
    costs.updates.push_back({});
    cost::MachineModel& m = replicas.rates.machine;
    m.cores = 1;
    m.flops_per_second_per_core = 1e9;
    m.bytes_per_second = 1e15;
    m.op_overhead_ns = 0;
    const cost::LinkModel link{.latency_ns = 0, .bytes_per_second = 1e9, .message_overhead_ns = 0};
    replicas.rates.comm = cost::CommModel(link, m);
    replicas.rates.comm.reduce_seconds_per_byte = 1e-15;
    replicas.traffic.path = path;
    replicas.servers = 1;
  }
  double step() const { return predict_replicas(plan, costs, replicas).step_seconds(); }
};

constexpr double kClose = 1e-3;

TEST(PredictReplicas, ExchangesOfAPeriodAreSpreadOverItsSteps) {
  World w(4, Path::kAllreduce);
  EXPECT_NEAR(w.step(), 1 + 1.5, kClose) << "a ring of four: 2 * 3/4 of a GB";
  w.replicas.traffic.every = 10;
  EXPECT_NEAR(w.step(), 1.15, kClose);
  w.replicas.traffic.hidden = true;
  EXPECT_NEAR(w.step(), 1, kClose);
  w.replicas.traffic.hidden = false;
  w.replicas.traffic.every = 0;
  w.replicas.traffic.share = 0.2;
  EXPECT_NEAR(w.step(), 1 + 1.5 / 8, kClose) << "every eighth step: as rare as keeps it within a fifth";
}

TEST(PredictReplicas, WithoutTrafficOnlyTheSlowestCounts) {
  World w(4, Path::kNone);
  EXPECT_NEAR(w.step(), 1, kClose);
  w.replicas.rates.speeds = {1, 1, 1, 0.25};
  EXPECT_NEAR(w.step(), 4, kClose);
  w.replicas.traffic.alone = true;
  EXPECT_NEAR(w.step(), 4 / 3.25, kClose) << "rates add up";
}

TEST(PredictReplicas, OneServersLinkCarriesEverybody) {
  World w(4, Path::kServers);
  EXPECT_NEAR(w.step(), 1 + 4 + 4, kClose) << "all in, then all out";
  w.replicas.servers = 4;
  EXPECT_NEAR(w.step(), 1 + 1 + 1, kClose);
  w.replicas.servers = 8;
  EXPECT_NEAR(w.step(), 1 + 1 + 1, kClose) << "then it is the worker's own link";
  w.replicas.servers = 1;
  w.replicas.traffic.alone = true;
  EXPECT_NEAR(w.step(), std::pow(std::pow(4, 4) + std::pow(3, 4), 0.25), kClose)
      << "one's pushes come in while another's weights go out";
  w.replicas.servers = 8;
  EXPECT_NEAR(w.step(), 3, 0.05) << "the cycle of a worker";
}

// Exchanges within a replica are waited for under every rule, and hide what goes on beside them.
TEST(PredictReplicas, ExchangesWithinReplicasAreWaitedFor) {
  for (const Path path : {Path::kNone, Path::kAllreduce, Path::kServers}) {
    World w(path == Path::kNone ? 1 : 4, path);
    const double without = w.step();
    w.plan.tile_seconds = 0.5;
    EXPECT_NEAR(w.step(), without + 0.5, kClose);
    EXPECT_NEAR(predict_replicas(w.plan, w.costs, w.replicas).axis_seconds, 0.5, kClose);
  }
  World hidden(4, Path::kServers);
  hidden.replicas.traffic.hidden = true;
  hidden.plan.tile_seconds = 2;
  EXPECT_NEAR(hidden.step(), 4, kClose) << "the servers' link carries four, which is more";
  hidden.plan.tile_seconds = 5;
  EXPECT_NEAR(hidden.step(), 6, kClose);
}

// Servers have the parameters of all tiles: each tile pushes its own bucket to the same links.
TEST(PredictReplicas, AllTilesOfAReplicaPushToTheSameServers) {
  World w(4, Path::kServers);
  w.plan.tiles = 2;
  EXPECT_NEAR(w.step(), 1 + 8 + 8, kClose);
  w.replicas.servers = 8;
  EXPECT_NEAR(w.step(), 1 + 1 + 1, kClose) << "as many as there are workers: it is their own links";
  w.replicas.servers = 1;
  w.replicas.traffic.alone = true;
  EXPECT_NEAR(w.step(), std::pow(std::pow(8, 4) + std::pow(5, 4), 0.25), kClose)
      << "a replica alone waits for the pushes of both of its tiles";
  EXPECT_NEAR(trade_of(w.plan, w.plan.buckets[0], w.replicas).seconds, 16, kClose);
}

TEST(PredictReplicas, SmallBucketsGoInAndOutAtTheSameTime) {
  World w(4, Path::kServers);
  w.plan.buckets[0].num_elems = 125'000'000;
  w.plan.buckets.push_back(w.plan.buckets[0]);
  w.costs.needed_before = {0, 0};
  w.costs.final_after = {0, 0};
  w.costs.updates.emplace_back();
  EXPECT_NEAR(w.step(), 1 + 2 + 2 + 2, kClose);
}

TEST(PredictReplicas, AQuorumLeavesTheSlowestOut) {
  World w(4, Path::kServers);
  w.replicas.servers = 4;
  w.replicas.rates.speeds = {1, 1, 1, 0.25};
  EXPECT_NEAR(w.step(), 4 + 2, kClose);
  w.replicas.traffic.quorum = 0.75;
  EXPECT_NEAR(w.step(), 1 + 2, kClose);
}

TEST(PredictReplicas, WorkersWithServersOnTheirMachinesSendLess) {
  World w(4, Path::kServers);
  w.replicas.servers = 4;
  w.replicas.colocated = true;
  EXPECT_NEAR(w.step(), 1 + 0.75 + 0.75, kClose);
}

TEST(PredictReplicas, CopiesToPeersMayNotOverrunTheLink) {
  World w(4, Path::kPeers);
  w.replicas.traffic.copies = 3;
  EXPECT_NEAR(w.step(), 3, kClose);
  w.replicas.traffic.every = 10;
  EXPECT_NEAR(w.step(), 1, kClose);
  w.replicas.traffic.every = 1;
  w.replicas.traffic.skips = true;
  EXPECT_NEAR(w.step(), 1, kClose) << "what does not fit is left out";
}

TEST(PredictReplicas, EncodedPushesAndPullsTakeLessOfTheLinks) {
  World w(4, Path::kServers);
  const double dense = w.step();
  w.plan.buckets[0].codec = "1bit";
  w.plan.buckets[0].message_bytes = 1e9 / 32;
  const double pushed = w.step();
  w.replicas.codes_pulls = true;
  const double both = w.step();
  EXPECT_NEAR(dense - pushed, 4 * (1 - 1.0 / 32), 0.01) << "the server's link in, four times";
  EXPECT_NEAR(pushed - both, 4 * (1 - 1.0 / 32), 0.01) << "and out";
  w.replicas.codes_pulls = false;
  w.plan.buckets[0].code_bytes = 3e9;
  w.replicas.rates.machine.bytes_per_second = 1e10;
  EXPECT_GT(w.step(), pushed + 0.3) << "encoding is work";
  World peers(4, Path::kPeers);
  peers.replicas.traffic.copies = 3;
  EXPECT_NEAR(peers.step(), 3, kClose);
  peers.plan.buckets[0].message_bytes = 1e9 / 32;
  EXPECT_NEAR(peers.step(), 1, kClose) << "hidden behind the step";
}

TEST(TradeOf, CountsWhatABucketSendsAndWaitsFor) {
  World w(4, Path::kServers);
  w.plan.buckets[0].message_bytes = 1e8;
  const BucketTrade trade = trade_of(w.plan, w.plan.buckets[0], w.replicas);
  EXPECT_EQ(trade.bytes_out, 1e8);
  EXPECT_EQ(trade.bytes_in, 1e9);
  EXPECT_NEAR(trade.seconds, 0.4 + 4, 0.01);
}

}  // namespace
}  // namespace trireme::plan
