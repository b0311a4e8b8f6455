// Metrics that can be followed: lines and events are in the files soon after they were added, and an
// interrupted run goes on with exactly the lines of its checkpoint.
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/record/metrics.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::record {
namespace {

using runtime::Runtime;
using runtime::Task;

constexpr const char* kPath = "run/metrics.jsonl";

MetricsLog::Step step_row(std::int64_t step) {
  MetricsLog::Step row;
  row.step = step;
  row.loss = 0.5;
  return row;
}

Task<std::string> text_of(Runtime& rt, std::string path) {
  Result<Bytes> bytes = co_await rt.files().read(path);
  co_return bytes.ok() ? std::string(as_text(*bytes)) : "no file";
}

Task<std::vector<io::ScalarEvent>> events_in(Runtime& rt, std::string dir) {
  std::vector<io::ScalarEvent> found;
  const Result<std::vector<std::string>> names = co_await rt.files().list(dir);
  for (const std::string& name : *names) {
    if (!name.starts_with("events.out.")) continue;
    const Result<Bytes> bytes = co_await rt.files().read(dir + "/" + name);
    for (io::ScalarEvent& e : io::read_events(*bytes).scalars) found.push_back(std::move(e));
  }
  co_return found;
}

std::int64_t lines_in(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

// Runs `body` in a virtual world where disk operation `broken` of the rank fails (-1: none).
template <typename Body>
void in_world(Body body, std::int64_t broken = -1) {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(1, {}, {});
  if (broken >= 0) {
    runtime::FaultSpec fault;
    fault.kind = runtime::FaultSpec::Kind::kError;
    fault.runtime = 0;
    fault.site = "disk";
    fault.index = static_cast<std::uint64_t>(broken);
    spec.faults.push_back(fault);
  }
  const auto world = runtime::make_virtual_world(spec);
  Runtime& rt = world->add_runtime(0, "rank");
  world->start(rt, body(rt));
  const auto report = world->run(kForever);
  EXPECT_TRUE(report.finished) << report.stuck;
}

TEST(LiveMetrics, LinesAndEventsAreInTheFilesWithinTwoSecondsWithoutAFlush) {
  in_world([](Runtime& rt) -> Task<void> {
    EXPECT_TRUE((co_await rt.files().make_dirs("run")).ok());
    MetricsLog log(rt, "run", true);
    EXPECT_TRUE((co_await log.open(0)).ok());
    for (std::int64_t step = 1; step <= 3; ++step) {
      log.add_step(step_row(step));
      co_await rt.sleep_for(2 * kSecond);
      EXPECT_EQ(lines_in(co_await text_of(rt, kPath)), step);
      const std::vector<io::ScalarEvent> events = co_await events_in(rt, "run");
      EXPECT_EQ(events.empty() ? 0 : events.back().step, step);
    }
    // Many steps in one second are one write, and none is lost.
    for (std::int64_t step = 4; step <= 103; ++step) {
      log.add_step(step_row(step));
      co_await rt.sleep_for(10 * kMilli);
    }
    co_await rt.sleep_for(2 * kSecond);
    EXPECT_EQ(lines_in(co_await text_of(rt, kPath)), 103);
    EXPECT_TRUE((co_await log.flush()).ok());
    EXPECT_EQ(lines_in(co_await text_of(rt, kPath)), 103) << "nothing is written twice";
  });
}

TEST(LiveMetrics, AFlushDuringAWriteWritesEveryLineOnce) {
  for (TimeNs pause = 0; pause < 400 * kMicro; pause += 20 * kMicro)
    in_world([pause](Runtime& rt) -> Task<void> {
      EXPECT_TRUE((co_await rt.files().make_dirs("run")).ok());
      MetricsLog log(rt, "run", true);
      EXPECT_TRUE((co_await log.open(0)).ok());
      log.add_step(step_row(1));
      co_await rt.sleep_for(kMetricsDelay + pause);  // the write is somewhere under way
      log.add_step(step_row(2));
      EXPECT_TRUE((co_await log.flush()).ok());
      EXPECT_EQ(lines_in(co_await text_of(rt, kPath)), 2);
      EXPECT_EQ((co_await events_in(rt, "run")).size(), 6U);
    });
}

TEST(LiveMetrics, AWriteThatFailsIsDoneAgain) {
  // Operations: make_dirs, read, write, sync, rename, sync, then an append for each step.
  for (std::int64_t broken = 6; broken <= 7; ++broken)
    in_world(
        [](Runtime& rt) -> Task<void> {
          EXPECT_TRUE((co_await rt.files().make_dirs("run")).ok());
          MetricsLog log(rt, "run", false);
          EXPECT_TRUE((co_await log.open(0)).ok());
          log.add_step(step_row(1));
          co_await rt.sleep_for(2 * kSecond);
          log.add_step(step_row(2));
          co_await rt.sleep_for(2 * kSecond);
          EXPECT_TRUE((co_await log.flush()).ok());
          EXPECT_EQ(lines_in(co_await text_of(rt, kPath)), 2);
        },
        broken);
}

TEST(LiveMetrics, ALogThatIsGoneWritesNoMore) {
  in_world([](Runtime& rt) -> Task<void> {
    EXPECT_TRUE((co_await rt.files().make_dirs("run")).ok());
    {
      MetricsLog log(rt, "run", false);
      EXPECT_TRUE((co_await log.open(0)).ok());
      log.add_step(step_row(1));
    }
    co_await rt.sleep_for(2 * kSecond);
    EXPECT_EQ(co_await text_of(rt, kPath), "");
  });
}

// A stop came between the last step of a checkpoint and its evaluation; the resumed run has evaluated, and
// was killed before its next checkpoint.
TEST(LiveMetrics, AnEvaluationThatIsOwedAgainIsDroppedFirst) {
  in_world([](Runtime& rt) -> Task<void> {
    EXPECT_TRUE((co_await rt.files().make_dirs("run")).ok());
    {
      MetricsLog log(rt, "run", true);
      EXPECT_TRUE((co_await log.open(0)).ok());
      for (std::int64_t step = 1; step <= 2; ++step) {
        log.add_step(step_row(step));
        log.add_evaluation({step, 0, engine::Part::kTest, 0.25, 0.875});
      }
      EXPECT_TRUE((co_await log.flush()).ok());
    }
    {
      MetricsLog log(rt, "run", true);
      EXPECT_TRUE((co_await log.open(2, /*evaluates_again=*/true)).ok());
    }
    const std::string text = co_await text_of(rt, kPath);
    EXPECT_EQ(lines_in(text), 3) << text;
    EXPECT_EQ(text.find("test_loss"), text.rfind("test_loss")) << text;
    for (const io::ScalarEvent& e : co_await events_in(rt, "run"))
      EXPECT_TRUE(e.step == 1 || e.tag.starts_with("train/")) << e.tag;
    {
      MetricsLog log(rt, "run", true);
      EXPECT_TRUE((co_await log.open(2)).ok());
    }
    EXPECT_EQ(co_await text_of(rt, kPath), text) << "without a debt all of the last step stays";
  });
}

}  // namespace
}  // namespace trireme::record
