// Measuring parameter servers: figures and bounds, and that a case runs to its end with the right sums.
#include <gtest/gtest.h>

#include "trireme/measure/server_case.h"

namespace trireme::measure {
namespace {

cost::LinkModel link_of(double bytes_per_second, TimeNs latency) {
  cost::LinkModel link;
  link.bytes_per_second = bytes_per_second;
  link.latency_ns = latency;
  return link;
}

ServerCase case_of(int workers, int servers, std::uint64_t bytes) {
  ServerCase setup;
  setup.workers = workers;
  setup.servers = servers;
  setup.bytes = bytes;
  return setup;
}

TEST(ServerCase, TheBoundIsAWorkersLinkOrAServers) {
  const cost::LinkModel link = link_of(1e9, 5 * kMicro);
  // One worker: up 1 ms, down 1 ms, latency twice.
  EXPECT_DOUBLE_EQ(server_bound_us(case_of(1, 1, 1'000'000), link), 10 + 2000);
  // Four vectors up, four down.
  EXPECT_DOUBLE_EQ(server_bound_us(case_of(1, 4, 1'000'000), link), 10 + 8000);
  // Eight workers into one server: the first is read while the last comes.
  EXPECT_DOUBLE_EQ(server_bound_us(case_of(8, 1, 1'000'000), link), 10 + 9000);
  EXPECT_DOUBLE_EQ(server_bound_us(case_of(3, 1, 0), link), 10);
}

TEST(ServerCase, FiguresCountPushesAndPullsOfAllWorkers) {
  ServerFigures f;
  f.setup = case_of(3, 2, 1000);
  f.round_us = 600;
  f.bound_us = 150;
  EXPECT_DOUBLE_EQ(f.messages_per_second(), 12 / 600e-6);
  EXPECT_DOUBLE_EQ(f.bytes_per_second(), 12'000 / 600e-6);
  EXPECT_DOUBLE_EQ(f.share_of_bound(), 0.25);
}

TEST(ServerCase, ACaseRunsToItsEndAndItsSumsAreChecked) {
  ServerCase setup = case_of(2, 2, 4096);
  setup.transport = "inproc";
  setup.repeats = 2;
  setup.seconds = 0.01;
  const Result<ServerFigures> figures = measure_servers(setup);
  ASSERT_TRUE(figures.ok()) << figures.status().to_string();
  EXPECT_GT(figures->round_us, 0);
  EXPECT_GE(figures->rounds, 2 * 4);
}

}  // namespace
}  // namespace trireme::measure
