// `trireme bench server`: its rows as text and as JSON.
#include <gtest/gtest.h>

#include "trireme/cli/bench/server_report.h"

namespace trireme::cli::bench {
namespace {

TEST(BenchServer, ARowSaysWhenThereAreMoreRanksThanCoresAndJsonHasItsFigures) {
  measure::ServerFigures f;
  f.setup.workers = 3;
  f.setup.servers = 2;
  f.setup.bytes = 1000;
  f.round_us = 600;
  f.bound_us = 150;
  cost::LinkModel link;
  link.bytes_per_second = 1e9;
  link.latency_ns = kMicro;
  EXPECT_NE(server_table_row(f, 4).find("more ranks than cores"), std::string::npos);
  EXPECT_EQ(server_table_row(f, 5).find("more ranks than cores"), std::string::npos);
  const Json json = server_json({f}, link, "as given");
  EXPECT_EQ(json["rows"][0]["workers"], 3);
  EXPECT_DOUBLE_EQ(json["rows"][0]["share_of_bound"].get<double>(), 0.25);
  EXPECT_EQ(json["link"]["source"], "as given");
}

}  // namespace
}  // namespace trireme::cli::bench
