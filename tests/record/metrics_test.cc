#include "trireme/record/metrics.h"

#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "trireme/base/json.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::record {
namespace {

using runtime::Runtime;
using runtime::Task;

constexpr const char* kPath = "run/metrics.jsonl";

std::unique_ptr<runtime::VirtualWorld> one_machine() {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(1, {}, {});
  return runtime::make_virtual_world(spec);
}

Task<void> write_file(Runtime& rt, std::string text) {
  Status done = co_await rt.files().make_dirs("run");
  EXPECT_TRUE(done.ok());
  done = co_await rt.files().write(kPath, as_bytes(text));
  EXPECT_TRUE(done.ok());
}

Task<void> read_file(Runtime& rt, std::string& out) {
  Result<Bytes> bytes = co_await rt.files().read(kPath);
  out = bytes.ok() ? std::string(as_text(*bytes)) : "no file";
}

Task<void> open_and_add(Runtime& rt, std::string run_dir, std::int64_t last_step, bool add) {
  MetricsLog log(rt, run_dir, false);
  Status done = co_await log.open(last_step);
  EXPECT_TRUE(done.ok()) << done.to_string();
  if (!add) co_return;
  MetricsLog::Step step;
  step.step = last_step + 1;
  step.epoch = 2;
  step.samples = 128;
  step.loss = 0.5;
  step.accuracy = 0.75;
  step.lr = 0.1;
  step.since_start = 3 * kSecond;
  log.add_step(step);
  log.add_evaluation({last_step + 1, 2, engine::Part::kTest, 0.25, 0.875});
  done = co_await log.flush();
  EXPECT_TRUE(done.ok()) << done.to_string();
  done = co_await log.flush();
  EXPECT_TRUE(done.ok()) << "nothing is left to write";
}

// What the file holds after opening it with `before` in it.
std::string opened(const std::string& before, std::int64_t last_step, bool add = false) {
  const auto world = one_machine();
  Runtime& rt = world->add_runtime(0, "rank");
  std::string after;
  const std::function<Task<void>()> phases[] = {
      [&] { return write_file(rt, before); },
      [&] { return open_and_add(rt, "run", last_step, add); },
      [&] { return read_file(rt, after); },
  };
  for (const auto& phase : phases) {
    world->start(rt, phase());
    const auto report = world->run(kForever);
    EXPECT_TRUE(report.finished) << report.stuck;
  }
  return after;
}

TEST(Metrics, LinesBeyondTheCheckpointAreDropped) {
  const std::string lines = "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"test_loss\":1}\n{\"step\":3}\n";
  EXPECT_EQ(opened(lines, 2), "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"test_loss\":1}\n");
  EXPECT_EQ(opened(lines, 3), lines);
  EXPECT_EQ(opened(lines, 0), "");
}

TEST(Metrics, ATornLastLineIsDropped) {
  const std::string whole = "{\"step\":1,\"loss\":0.5}\n";
  for (std::size_t cut = 1; cut + 2 < whole.size(); ++cut)
    EXPECT_EQ(opened(whole + whole.substr(0, cut), 9), whole) << cut;
  EXPECT_EQ(opened(whole + whole.substr(0, whole.size() - 1), 9), whole + whole)
      << "only the end of the line was lost";
}

TEST(Metrics, LinesThatAreNoMetricsAreDropped) {
  EXPECT_EQ(opened("\n12\n[]\n\"x\"\n{\"step\":\"1\"}\n{\"loss\":1}\n{\"step\":1}\n", 9), "{\"step\":1}\n");
}

TEST(Metrics, StepsAndEvaluationsAreAppendedAsJsonLines) {
  const std::string text = opened("{\"step\":4}\n{\"step\":5}\n", 4, true);
  std::istringstream lines(text);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, "{\"step\":4}");
  ASSERT_TRUE(std::getline(lines, line));
  const Json step = *parse_json(line, "line");
  EXPECT_EQ(step["step"], 5);
  EXPECT_EQ(step["epoch"], 2);
  EXPECT_EQ(step["loss"], 0.5);
  EXPECT_EQ(step["accuracy"], 0.75);
  EXPECT_EQ(step["lr"], 0.1);
  EXPECT_EQ(step["seconds"], 3.0);
  ASSERT_TRUE(std::getline(lines, line));
  const Json evaluation = *parse_json(line, "line");
  EXPECT_EQ(evaluation["test_loss"], 0.25);
  EXPECT_EQ(evaluation["test_accuracy"], 0.875);
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(Metrics, WithoutARunFolderNothingIsWritten) {
  const auto world = one_machine();
  Runtime& rt = world->add_runtime(0, "rank");
  world->start(rt, open_and_add(rt, "", 0, true));
  ASSERT_TRUE(world->run(kForever).finished);
  std::string after;
  world->start(rt, read_file(rt, after));
  ASSERT_TRUE(world->run(kForever).finished);
  EXPECT_EQ(after, "no file");
}

}  // namespace
}  // namespace trireme::record
