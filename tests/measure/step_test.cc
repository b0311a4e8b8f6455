// The pure parts of measuring training steps: workloads as jobs, figures out of rounds.
#include <gtest/gtest.h>

#include <set>

#include "trireme/job/job_parts.h"
#include "trireme/measure/step/train_bench.h"

namespace trireme::measure {
namespace {

TEST(Workloads, AreJobsWhoseModelsTakeTheirSamples) {
  std::set<std::string> names;
  for (const Workload& w : workload_table()) {
    EXPECT_TRUE(names.insert(w.name).second) << w.name;
    const Result<job::Job> job = make_job(w, "f32", "cpu", /*quick=*/true);
    ASSERT_TRUE(job.ok()) << job.status().message();
    EXPECT_EQ(job::check_job(*job).message(), "") << w.name;
    const auto samples = make_samples(*job);
    ASSERT_TRUE(samples.ok()) << samples.status().message();
    EXPECT_EQ((*samples)->num_train, job->train.batch);
    const auto input = job::model_input(*job, **samples);
    ASSERT_TRUE(input.ok()) << input.status().message();
    EXPECT_TRUE(job::build_job_model(*job, *input, 1).ok()) << w.name;
  }
}

TEST(Workloads, AreChosenByName) {
  EXPECT_EQ(parse_workloads("", "cpu")->size() + 1, workload_table().size());
  EXPECT_EQ(parse_workloads("", "cuda")->size(), 4U);
  EXPECT_STREQ((*parse_workloads("lstm,lenet", "cpu"))[0]->name, "lstm");
  const Status unknown = parse_workloads("lenet,vgg", "cpu").status();
  EXPECT_EQ(unknown.code(), Code::kInvalid);
  EXPECT_NE(unknown.message().find("'vgg'"), std::string::npos) << unknown.message();
  EXPECT_NE(unknown.message().find("resnet50"), std::string::npos) << unknown.message();
}

TEST(TrainRow, ComparesWithTheFasterOfTheOthersModes) {
  TrainRow row;
  row.workload = &workload_table()[0];
  row.dtype = "f32";
  row.ours = summarise_rounds({10, 20, 12});
  EXPECT_DOUBLE_EQ(row.ours.median_ms, 12);
  EXPECT_DOUBLE_EQ(row.ours.low_ms, 11);
  EXPECT_DOUBLE_EQ(row.ours.high_ms, 16);
  EXPECT_FALSE(row.ratio().has_value());
  row.eager = summarise_rounds({30, 60, 36});
  row.eager->peak_bytes = 100;
  row.compile = summarise_rounds({15, 30, 18});
  row.compile->peak_bytes = 300;
  row.kernels = {{"least_ms", 9.0}};
  EXPECT_DOUBLE_EQ(*row.ratio(), 1.5);
  EXPECT_DOUBLE_EQ(row.ratio_spread()->first, 1.5);  // what slows a round slows both sides
  EXPECT_DOUBLE_EQ(row.ratio_spread()->second, 1.5);
  EXPECT_DOUBLE_EQ(*row.ceiling(), 2);
  EXPECT_EQ(*row.torch_peak_bytes(), 100);
}

}  // namespace
}  // namespace trireme::measure
