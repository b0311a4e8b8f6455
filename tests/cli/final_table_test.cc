#include "trireme/cli/final_table.h"

#include <gtest/gtest.h>

#include "trireme/agree/agree.h"
#include "trireme/record/summary.h"

namespace trireme::cli {
namespace {

Json summary() {
  record::Summary s;
  s.workers = 3;
  s.servers = 1;
  s.agreement = "bsp";
  s.transport = "shm";
  s.samples_per_second = 12300;
  s.predicted_one_worker_rate = 5000;
  s.measured_step_seconds = 0.01;
  s.exposed_seconds = 0.001;
  s.predicted_step_seconds = 0.009;
  s.bytes_sent_per_step = 1 << 20;
  for (int w = 0; w < 3; ++w) {
    record::WorkerShare share;
    share.worker = w;
    share.steps = 400;
    share.compute_seconds = 3.25;
    share.exposed_seconds = 0.5;
    share.waiting_seconds = w == 2 ? 0 : 0.25;
    share.waits_for = w == 2 ? -1 : 2;
    share.data_seconds = 0.001;
    share.bytes_sent = 400.0 * (1 << 20);
    share.lost = w == 1;
    s.per_worker.push_back(share);
  }
  s.staleness = {{0, 60}, {1, 30}, {12, 10}};
  s.drift = 0.02;
  s.lost_workers = {1};
  return record::to_json(s);
}

TEST(FinalTable, ShowsWhereTheTimeOfEveryWorkerWent) {
  EXPECT_EQ(
      final_table(summary()),
      R"(3 workers, 1 server, bsp over shm: 12.3 k samples/s, scaling efficiency 82.0 % (one worker predicted), communication efficiency 90.0 %
step 10 ms measured, 9 ms predicted (-10 %, not calibrated: run trireme calibrate); 1.0 MiB sent per step and worker
worker  steps  compute  exposed  waiting  for rank  data       sent
     0    400   3.25 s   500 ms   250 ms         2  1 ms  400.0 MiB
     1    400   3.25 s   500 ms   250 ms         2  1 ms  400.0 MiB  lost
     2    400   3.25 s   500 ms     0 ns         -  1 ms  400.0 MiB
staleness of updates: mean 1.50, at most 12 clocks
     0  ############################## 60.0 %
     1  ###############                30.0 %
    12  #####                          10.0 %
drift: replicas are 2.0 % of the weights' length away from their mean
lost on the way: worker 1
)");
}

TEST(FinalTable, LeavesColumnsOutWhereTheTerminalIsNarrow) {
  const auto row = [](int columns) {
    const std::string text = final_table(summary(), columns);
    const std::size_t at = text.find("worker  ");
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_EQ(row(80), "worker  steps  compute  exposed  waiting  for rank  data       sent");
  EXPECT_EQ(row(60), "worker  steps  compute  exposed  waiting       sent");
  EXPECT_EQ(row(40), "worker  compute  exposed  waiting");
  EXPECT_EQ(row(10), "worker  compute");
}

TEST(FinalTable, ShowsTheStagesOfAPipeline) {
  record::Summary s;
  s.workers = 2;
  s.agreement = "bsp";
  s.transport = "shm";
  s.mesh = "data=1,stage=2";
  for (int w = 0; w < 2; ++w) {
    record::WorkerShare& share = s.per_worker.emplace_back();
    share.worker = w;
    share.steps = 40;
  }
  record::PipelineReport report;
  report.kind = "1f1b";
  report.stages = 2;
  report.micro_batches = 8;
  report.predicted_bubble_fraction = 0.125;
  take_stages({{0, 0.5, 1, 100}, {1, 0.75, 1, 50}}, report);
  s.pipeline = report;
  const std::string text = final_table(record::to_json(s), 80);
  for (const char* part :
       {"pipeline 1f1b, 2 stages, 8 micro-batches: bubble 37.5 %, 12.5 % predicted\n",
        "stage 1 is slow: it computes for 750 ms in a step, the others for 500 ms at most; give it fewer "
        "layers (parallel.stage_cuts), or a faster machine\n",
        "worker  stage  bubble  steps", "     0      0  50.0 %     40", "     1      1  25.0 %     40"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
}

TEST(FinalTable, SaysWhatThePredictionIsMadeOf) {
  Json s = summary();
  s["calibrated"] = true;
  s.erase("predicted_measured_fraction");  // an older run
  EXPECT_NE(final_table(s).find("9 ms predicted (-10 %, calibrated);"), std::string::npos);
  s["predicted_measured_fraction"] = 0.5;
  EXPECT_NE(final_table(s).find("op times not measured: trireme calibrate JOB measures them"),
            std::string::npos);
  s["predicted_measured_fraction"] = 1;
  EXPECT_NE(final_table(s).find("(-10 %, calibrated, op times measured);"), std::string::npos);
}

TEST(FinalTable, IsEmptyForOneWorkerAndShortWithoutNews) {
  record::Summary s;
  EXPECT_EQ(final_table(record::to_json(s)), "");
  s.workers = 2;
  s.agreement = "bsp";
  s.transport = "shm";
  s.staleness = {{0, 10}};
  EXPECT_EQ(final_table(record::to_json(s)),
            "2 workers, bsp over shm: 0 samples/s, communication efficiency 100.0 %\n");
}

TEST(FinalTable, WarnsOfALargeDriftWithTheKeyToChange) {
  for (const agree::AgreementRow& row : agree::agreement_table()) {
    record::Summary s;
    s.workers = 2;
    s.agreement = row.name;
    s.drift = 0.5;
    const std::string text = final_table(record::to_json(s));
    EXPECT_NE(text.find("warning: replicas have drifted apart; try "), std::string::npos) << text;
    for (const OptionSpec& option : row.options)
      if (std::string_view(option.name) == "period") {
        EXPECT_NE(text.find("a smaller parallel.period"), std::string::npos) << text;
      }
    s.drift = 0.05;
    EXPECT_EQ(final_table(record::to_json(s)).find("warning"), std::string::npos);
  }
}

TEST(FinalTable, ManyWorkersAndLongTailsAreCutShort) {
  record::Summary s;
  s.workers = 100;
  s.per_worker.resize(100);
  for (int i = 0; i < 40; ++i) s.staleness[i] = 1;
  const std::string text = final_table(record::to_json(s));
  EXPECT_NE(text.find("   and 68 more, in summary.json\n"), std::string::npos) << text;
  EXPECT_NE(text.find("   and 24 more, in summary.json\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme::cli
