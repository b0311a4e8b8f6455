#include "trireme/prepare/measured_kernels.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "trireme/base/json.h"
#include "trireme/prepare/prepare.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::prepare {
namespace {

// Plans of a small net with 3x3 convolutions, measured with a cache file.
class MeasuredKernels : public ::testing::Test {
 protected:
  MeasuredKernels() {
    std::filesystem::remove(path_);
    job_.model.name = "resnet18";
    job_.train.batch = 16;
    first_ = *prepare(job_, {Shape{1, 28, 28}, 10}, {});
  }

  plan::Plan measure() {
    log_.clear();
    runtime::RealOptions options;
    options.compute_threads = 1;
    options.log_sink = [this](std::string_view line) { log_ += std::string(line) + "\n"; };
    const auto rt = runtime::make_real_runtime(options);
    Result<plan::Plan> out = Status(Code::kInternal, "not run");
    rt->run(run(*rt, out));
    EXPECT_TRUE(out.ok()) << out.status().to_string();
    return *out;
  }
  runtime::Task<void> run(runtime::Runtime& rt, Result<plan::Plan>& out) {
    out = co_await with_measured_kernels(rt, first_, path_);
  }

  Json cache() const {
    std::ifstream in(path_);
    std::stringstream text;
    text << in.rdbuf();
    const Result<Json> json = parse_json(text.str(), path_);
    EXPECT_TRUE(json.ok()) << json.status().to_string();
    return json.ok() ? *json : Json();
  }
  void store(const std::string& text) const { std::ofstream(path_) << text; }

  const std::string path_ = ::testing::TempDir() + "trireme-measured-kernels.json";
  job::Job job_;
  std::shared_ptr<const Prepared> first_;
  std::string log_;
};

TEST_F(MeasuredKernels, WhatIsRememberedStandsAndIsNotMeasuredAgain) {
  measure();
  EXPECT_NE(log_.find("measured the kernels of"), std::string::npos) << log_;
  Json remembered = cache();
  int chosen = 0;
  for (auto& [key, row] : remembered["kernels"].items()) {
    const bool takes_winograd = key.find("|winograd") != std::string::npos;
    row = takes_winograd ? "winograd" : row.get<std::string>();
    chosen += takes_winograd ? 1 : 0;
  }
  ASSERT_GT(chosen, 0);
  store(remembered.dump());
  const plan::Plan plan = measure();
  EXPECT_EQ(log_, "");
  EXPECT_EQ(cache(), remembered);
  int named = 0;
  for (const auto& [node, row] : plan.kernels) named += row == "winograd" ? 1 : 0;
  EXPECT_GE(named, chosen);

  PrepareOptions options;
  options.fixed = std::make_shared<const plan::Plan>(plan);
  const auto again = prepare(job_, {Shape{1, 28, 28}, 10}, options);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ((*again)->plan.kernels, plan.kernels);
  EXPECT_NE((*again)->train->to_text().find(" by winograd"), std::string::npos);
}

TEST_F(MeasuredKernels, AFileThatCannotBeReadIsIgnoredWithAWarning) {
  for (const char* text : {"{\"format\": ", "{\"format\": \"other\", \"kernels\": {}}", "[1, 2]"}) {
    store(text);
    measure();
    EXPECT_NE(log_.find("warning: remembered kernels are ignored"), std::string::npos) << text << "\n"
                                                                                       << log_;
    EXPECT_EQ(cache()["format"], "trireme kernels 1");
  }
}

TEST_F(MeasuredKernels, RunsWhoseBitsBelongToTheJobAreNotMeasured) {
  const auto rt = runtime::make_real_runtime({});
  EXPECT_TRUE(may_measure_kernels(job_, *rt));
  job_.train.logical_shards = 4;
  EXPECT_FALSE(may_measure_kernels(job_, *rt));
}

}  // namespace
}  // namespace trireme::prepare
