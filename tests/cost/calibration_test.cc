#include "trireme/cost/calibration.h"

#include <gtest/gtest.h>

#include "trireme/base/rng.h"

namespace trireme::cost {
namespace {

Calibration example() {
  Calibration c;
  c.host = "oar";
  c.date = "2026-01-31T12:00:00Z";
  c.machine.cores = 4;
  c.busy = {{1, 50e9, 10e9}, {4, 40e9, 20e9}};
  c.reduce_seconds_per_byte = 1e-10;
  c.reduce_spread = 0.02;
  TransportCalibration shm;
  shm.transport = "shm";
  shm.link = {.latency_ns = 600, .bytes_per_second = 4e9, .message_overhead_ns = 150};
  shm.blocking_latency_ns = 30'000;
  shm.peer_bytes_per_second = 9e9;
  shm.fit_error = 0.05;
  shm.spread = 0.1;
  shm.measured = {{64, 1e-6, 0.1}, {1 << 20, 3e-4, 0.02}};
  c.transports.push_back(shm);
  c.op_times.processor = "oar's";
  c.op_times.put("relu f32[4]|fast|1 threads", 2, {"relu", 1e-6, 0.1, 5, 4, 32});
  return c;
}

TEST(Calibration, SurvivesItsFile) {
  const std::string text = to_json(example()).dump();
  const Result<Calibration> read = load_calibration(text, "calibration.json");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(to_json(*read).dump(), text);
}

TEST(Calibration, FilesFromBeforeOpTimesHaveNone) {
  Json json = to_json(example());
  json["version"] = 1;
  json.erase("op_times");
  json.erase("busy");
  const Result<Calibration> read = load_calibration(json.dump(), "calibration.json");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_TRUE(read->op_times.is_empty());
  EXPECT_EQ(read->find_busy(1), nullptr);
  EXPECT_TRUE(read->ignored.empty());
}

TEST(Calibration, ABrokenOpTimeCostsOnlyItself) {
  Json json = to_json(example());
  json["op_times"]["entries"][0]["seconds"] = "none";
  const Result<Calibration> read = load_calibration(json.dump(), "calibration.json");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->ignored.size(), 1U);
  EXPECT_EQ(read->transports.size(), 1U);
}

TEST(Calibration, FilesThatMakeNoSenseAreRefusedWithANextStep) {
  const auto refused = [](const char* key, const Json& value, const char* reason) {
    Json json = to_json(example());
    if (value.is_null())
      json.erase(key);
    else
      json[key] = value;
    const Status s = load_calibration(json.dump(), "here.json").status();
    ASSERT_FALSE(s.ok()) << key;
    EXPECT_NE(s.message().find(reason), std::string::npos) << s.message();
    EXPECT_NE(s.message().find("here.json"), std::string::npos) << s.message();
    EXPECT_NE(s.message().find("trireme calibrate"), std::string::npos) << s.message();
  };
  refused("version", 3, "version 3 is not known here");
  refused("host", Json(), "'host' is missing");
  refused("reduce_seconds_per_byte", 0, "expected more than 0");
  refused("machine", Json::object(), "is missing");
  Json busy = to_json(example())["busy"];
  busy[1]["cores"] = 1;
  refused("busy", busy, "expected more cores than 1");
  busy[1] = {{"cores", 4}, {"flops_per_second_per_core", 0}, {"bytes_per_second", 1}};
  refused("busy", busy, "rates above 0");
  refused("transports",
          Json::array({to_json(example())["transports"][0], to_json(example())["transports"][0]}), "twice");
  Json bad_link = to_json(example())["transports"];
  bad_link[0]["link"]["bytes_per_second"] = -1;
  refused("transports", bad_link, "bandwidth");
  EXPECT_FALSE(load_calibration("{", "here.json").ok());
}

TEST(Calibration, MakesTheModelOfATransport) {
  const Calibration c = example();
  const CommModel two = *comm_model(c, "shm", 2);
  EXPECT_EQ(two.link.latency_ns, 600);
  EXPECT_EQ(two.crowding(), 1);
  EXPECT_DOUBLE_EQ(two.reduce_seconds(1e6), 1e-4);
  EXPECT_DOUBLE_EQ(two.peer_copy_seconds(9e6), 1e-3);
  // Eight ranks on four cores take turns and block.
  const CommModel eight = *comm_model(c, "shm", 8);
  EXPECT_EQ(eight.link.latency_ns, 30'000);
  EXPECT_EQ(eight.crowding(), 2);
  const Status missing = comm_model(c, "tcp", 2).status();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_NE(missing.message().find("it has shm"), std::string::npos) << missing.message();
}

TEST(FitLine, FindsLatencyAndBandwidthInNoise) {
  Philox rng(7);
  std::vector<TimedSize> points;
  for (std::uint64_t bytes = 64; bytes <= (4 << 20); bytes *= 4) {
    const double noise = 0.95 + 0.1 * rng.next_below(1000) / 1000.0;
    points.push_back({bytes, (3e-6 + static_cast<double>(bytes) * 2e-10) * noise, 0});
  }
  const Result<LineFit> fit = fit_line(points);
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->fixed, 3e-6, 0.2e-6);
  EXPECT_NEAR(fit->per_byte, 2e-10, 0.15e-10);
  EXPECT_LT(fit->median_error, 0.06);
}

TEST(FitLine, KeepsBothPartsPositiveAndRefusesTooLittle) {
  EXPECT_EQ(fit_line({{1000, 1e-6, 0}, {2000, 3e-6, 0}})->fixed, 0);
  EXPECT_EQ(fit_line({{1000, 3e-6, 0}, {2000, 1e-6, 0}})->per_byte, 0);
  EXPECT_EQ(fit_line({{1000, 1e-6, 0}, {1000, 2e-6, 0}}).status().code(), Code::kInvalid);
  EXPECT_EQ(fit_line({{1000, 1e-6, 0}, {2000, 0, 0}}).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::cost
