// The pure parts of `trireme bench train`: workloads as jobs, figures out of rounds.
#include <gtest/gtest.h>

#include <set>

#include "trireme/cli/bench/train_bench.h"
#include "trireme/job/job_parts.h"

namespace trireme::cli::bench {
namespace {

TEST(BenchWorkloads, AreJobsWhoseModelsTakeTheirSamples) {
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

TEST(BenchWorkloads, AreChosenByName) {
  EXPECT_EQ(parse_workloads("", "cpu")->size() + 1, workload_table().size());
  EXPECT_EQ(parse_workloads("", "cuda")->size(), 4U);
  EXPECT_STREQ((*parse_workloads("lstm,lenet", "cpu"))[0]->name, "lstm");
  const Status unknown = parse_workloads("lenet,vgg", "cpu").status();
  EXPECT_EQ(unknown.code(), Code::kInvalid);
  EXPECT_NE(unknown.message().find("'vgg'"), std::string::npos) << unknown.message();
  EXPECT_NE(unknown.message().find("resnet50"), std::string::npos) << unknown.message();
}

TEST(BenchTrainRow, ComparesWithTheFasterOfTheOthersModes) {
  TrainRow row;
  row.workload = &workload_table()[0];
  row.dtype = "f32";
  row.ours = summarise_rounds({10, 20, 12});
  EXPECT_DOUBLE_EQ(row.ours.median_ms, 12);
  EXPECT_DOUBLE_EQ(row.ours.low_ms, 11);
  EXPECT_DOUBLE_EQ(row.ours.high_ms, 16);
  EXPECT_FALSE(row.ratio().has_value());
  EXPECT_TRUE(to_json(row, 2)["ratio"].is_null());
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
  const Json json = to_json(row, 2);
  EXPECT_EQ(json["torch_eager_ms"], 36.0);
  EXPECT_EQ(json["torch_compile_ms"], 18.0);
}

}  // namespace
}  // namespace trireme::cli::bench
