// The stored calibration: op times that are not of this processor cost a word, and nothing else.
#include "trireme/start/calibration_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "trireme/lower/kernel_cache.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::start {
namespace {

using runtime::Task;

class CalibrationFile : public ::testing::Test {
 protected:
  CalibrationFile() {
    places_.state_dir = ::testing::TempDir() + "trireme-calibration-file";
    std::filesystem::create_directories(places_.state_dir);
    of_.host = "h";
    of_.date = "2026-01-31T12:00:00Z";
    of_.reduce_seconds_per_byte = 1e-10;
    of_.op_times.put("relu f32[4]|fast|1 threads", 1, {"relu", 1e-6, 0, 5, 4, 32});
  }

  cost::Calibration read(const Json& stored) {
    log_.clear();
    std::ofstream(places_.calibration()) << stored.dump();
    runtime::RealOptions options;
    options.compute_threads = 1;
    options.log_sink = [this](std::string_view line) { log_ += std::string(line) + "\n"; };
    const auto rt = runtime::make_real_runtime(options);
    cost::Calibration out;
    rt->run(load(*rt, out));
    return out;
  }
  Task<void> load(runtime::Runtime& rt, cost::Calibration& out) {
    here_ = co_await lower::machine_text(rt);
    const auto read = co_await read_calibration(rt, places_, "");
    EXPECT_TRUE(read.ok() && read->has_value()) << read.status().to_string();
    if (read.ok() && read->has_value()) out = **read;
  }

  Places places_;
  cost::Calibration of_;
  std::string here_, log_;
};

TEST_F(CalibrationFile, OpTimesOfThisProcessorStand) {
  read(cost::to_json(of_));  // says what this one is
  of_.op_times.processor = here_;
  EXPECT_EQ(read(cost::to_json(of_)).op_times, of_.op_times);
  EXPECT_EQ(log_, "");
}

TEST_F(CalibrationFile, ForeignOpTimesAreIgnoredWithAWord) {
  of_.op_times.processor = "an abacus|fingers";
  const cost::Calibration out = read(cost::to_json(of_));
  EXPECT_TRUE(out.op_times.is_empty());
  EXPECT_EQ(out.host, "h") << "the rest stands";
  EXPECT_NE(log_.find("an abacus"), std::string::npos) << log_;
  EXPECT_NE(log_.find("trireme calibrate JOB"), std::string::npos) << log_;
}

TEST_F(CalibrationFile, BrokenOpTimesAreIgnoredWithAWord) {
  read(cost::to_json(of_));
  of_.op_times.processor = here_;
  Json json = cost::to_json(of_);
  json["op_times"]["entries"].push_back({{"node", "x"}});
  EXPECT_EQ(read(json).op_times, of_.op_times);
  EXPECT_NE(log_.find("op time 1"), std::string::npos) << log_;
}

}  // namespace
}  // namespace trireme::start
