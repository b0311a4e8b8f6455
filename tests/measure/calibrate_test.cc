// Calibration: which transports it takes, and what stays of an earlier one.
#include "trireme/measure/calibrate.h"

#include <gtest/gtest.h>

namespace trireme::measure {
namespace {

cost::Calibration of_host(const char* host, std::initializer_list<const char*> transports) {
  cost::Calibration c;
  c.host = host;
  for (const char* name : transports) c.transports.emplace_back().transport = name;
  return c;
}

TEST(Calibrate, ATransportThatCannotBeMeasuredIsRefusedByName) {
  EXPECT_TRUE(check_transports({"inproc", "shm", "tcp"}).ok());
  for (const char* name : {"mpi", "pigeon"}) {
    const Status refused = check_transports({"shm", name});
    EXPECT_EQ(refused.code(), Code::kInvalid);
    EXPECT_NE(refused.message().find(name), std::string::npos) << refused.message();
  }
}

TEST(Calibrate, WhatAnEarlierRunOfTheSameHostMeasuredStays) {
  cost::Calibration now = of_host("a", {"shm"});
  keep_others(of_host("b", {"tcp"}), now);
  EXPECT_EQ(now.transports.size(), 1U);
  keep_others(of_host("a", {"shm", "tcp"}), now);
  ASSERT_EQ(now.transports.size(), 2U);
  EXPECT_EQ(now.transports[1].transport, "tcp");
}

TEST(Calibrate, OpTimesOfTheSameHostStay) {
  cost::Calibration before = of_host("a", {}), here = of_host("a", {}), there = of_host("b", {});
  before.op_times.put("relu|1 threads", 1, {"relu", 1e-6, 0, 5, 1, 8});
  keep_others(before, here);
  keep_others(before, there);
  EXPECT_EQ(here.op_times, before.op_times);
  EXPECT_TRUE(there.op_times.is_empty());
}

}  // namespace
}  // namespace trireme::measure
