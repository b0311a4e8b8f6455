// What a worker can count on, of a host that was measured and of one that was not.
#include "trireme/cost/rates.h"

#include <gtest/gtest.h>

namespace trireme::cost {
namespace {

Calibration measured() {
  Calibration c;
  c.machine.cores = 16;
  c.machine.flops_per_second_per_core = 100e9;
  c.machine.bytes_per_second = 12e9;
  c.host_bytes_per_second = 96e9;
  c.reduce_seconds_per_byte = 1e-10;
  TransportCalibration shm, tcp;
  shm.transport = "shm";
  shm.link = {.latency_ns = 1000, .bytes_per_second = 5e9, .message_overhead_ns = 100};
  tcp.transport = "tcp";
  tcp.link = {.latency_ns = 20000, .bytes_per_second = 2e9, .message_overhead_ns = 1000};
  c.transports = {shm, tcp};
  return c;
}

Rates of(const Calibration* c, std::string_view transport, int ranks, int cores_each) {
  HostShare share;
  share.transport = transport;
  share.ranks_on_host = ranks;
  share.cores_per_rank = cores_each;
  share.num_cores = 16;
  return host_rates(c, share);
}

TEST(HostRates, RanksOfOneHostShareItsMemory) {
  const Calibration c = measured();
  EXPECT_EQ(of(&c, "shm", 1, 1).machine.bytes_per_second, 12e9) << "one core copies no faster";
  EXPECT_EQ(of(&c, "shm", 1, 4).machine.bytes_per_second, 48e9);
  EXPECT_EQ(of(&c, "shm", 1, 16).machine.bytes_per_second, 96e9) << "nor does the host";
  EXPECT_EQ(of(&c, "shm", 16, 1).machine.bytes_per_second, 6e9);
  EXPECT_EQ(of(&c, "shm", 16, 1).machine.flops_per_second_per_core, 100e9);
}

TEST(HostRates, AreThoseOfAsManyBusyCoresWhereThatWasMeasured) {
  Calibration c = measured();
  c.busy = {{1, 100e9, 12e9}, {2, 90e9, 22e9}, {16, 60e9, 64e9}};
  EXPECT_EQ(of(&c, "shm", 1, 1).machine.flops_per_second_per_core, 100e9);
  EXPECT_EQ(of(&c, "shm", 2, 1).machine.flops_per_second_per_core, 90e9);
  EXPECT_EQ(of(&c, "shm", 2, 1).machine.bytes_per_second, 11e9);
  EXPECT_EQ(of(&c, "shm", 1, 4).machine.flops_per_second_per_core, 60e9) << "the next one that was measured";
  EXPECT_EQ(of(&c, "shm", 1, 4).machine.bytes_per_second, 48e9) << "no more than four cores copy alone";
  EXPECT_EQ(of(&c, "shm", 64, 1).machine.flops_per_second_per_core, 60e9);
  EXPECT_EQ(of(&c, "shm", 64, 1).machine.bytes_per_second, 4e9);
}

TEST(HostRates, MoreRanksThanCoresTakeTurns) {
  const Calibration c = measured();
  EXPECT_EQ(of(&c, "shm", 16, 1).machine.speed, 1);
  EXPECT_EQ(of(&c, "shm", 64, 1).machine.speed, 0.25);
  EXPECT_EQ(of(&c, "shm", 64, 1).comm.crowding(), 4);
}

TEST(HostRates, TheTransportSaysWhichLink) {
  Calibration c = measured();
  EXPECT_EQ(of(&c, "shm", 4, 1).comm.link.bytes_per_second, 5e9);
  EXPECT_EQ(of(&c, "tcp", 4, 1).comm.link.bytes_per_second, 2e9);
  EXPECT_TRUE(of(&c, "tcp", 4, 1).calibrated);
  EXPECT_FALSE(of(&c, "mpi", 4, 1).calibrated) << "it was not measured";
  EXPECT_FALSE(of(&c, "shm", 4, 1).direct);
  TransportCalibration direct = c.transports[0];
  direct.transport = "direct";
  c.transports.push_back(direct);
  EXPECT_TRUE(of(&c, "shm", 4, 1).direct);
  EXPECT_FALSE(of(&c, "tcp", 4, 1).direct);
}

TEST(HostRates, ALinkBetweenHostsThatIsGivenCounts) {
  const Calibration c = measured();
  const LinkModel slow = *parse_link("100mbit,50us");
  HostShare share;
  share.transport = "tcp";
  share.link = &slow;
  const Rates rates = host_rates(&c, share);
  EXPECT_EQ(rates.comm.link.bytes_per_second, 12.5e6);
  EXPECT_EQ(rates.comm.link.latency_ns, 50'000);
  EXPECT_EQ(rates.comm.ranks_per_host, 0) << "the links move bytes by themselves";
  EXPECT_TRUE(rates.calibrated);
}

TEST(HostRates, WithoutACalibrationDefaultsStand) {
  const Rates rates = of(nullptr, "shm", 4, 4);
  EXPECT_FALSE(rates.calibrated);
  EXPECT_EQ(rates.machine.flops_per_second_per_core, MachineModel{}.flops_per_second_per_core);
  EXPECT_EQ(rates.comm.link.bytes_per_second, CommModel{}.local.bytes_per_second);
}

TEST(ParseLink, HasOneToThreeParts) {
  EXPECT_EQ(parse_link("1gbit")->bytes_per_second, 125e6);
  EXPECT_EQ(parse_link("1gbit")->latency_ns, LinkModel{}.latency_ns);
  EXPECT_EQ(parse_link("1gbit,3us,4us")->message_overhead_ns, 4000);
  EXPECT_EQ(parse_link("1gbit,3us,4us,5us").status().code(), Code::kInvalid);
  EXPECT_FALSE(parse_link("").ok());
  EXPECT_FALSE(parse_link("fast").ok());
}

}  // namespace
}  // namespace trireme::cost
