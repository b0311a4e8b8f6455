// The best evaluation: which one it is, that its checkpoint is kept, and that a run without a better one
// ends.
#include "trireme/record/best.h"

#include <cmath>
#include <filesystem>

#include "tests/train/trained_runs.h"
#include "trireme/job/job_parts.h"
#include "trireme/start/in_process.h"
#include "trireme/train/start.h"

namespace trireme::train {
namespace {

using model::ModelTask;
using runtime::Runtime;
using runtime::Task;

TEST(Best, OfClassifiersIsTheHighestAccuracyThenTheLowestLoss) {
  record::Best best;
  EXPECT_TRUE(record::take_evaluation(best, ModelTask::kClassify, 1, engine::Part::kTest, 2.0, 0.5));
  EXPECT_FALSE(record::take_evaluation(best, ModelTask::kClassify, 2, engine::Part::kTest, 1.0, 0.4))
      << "accuracy counts";
  EXPECT_FALSE(record::take_evaluation(best, ModelTask::kClassify, 3, engine::Part::kTest, 2.0, 0.5))
      << "equal is no better";
  EXPECT_EQ(best.since, 2);
  EXPECT_TRUE(record::take_evaluation(best, ModelTask::kClassify, 4, engine::Part::kTest, 1.9, 0.5));
  EXPECT_EQ(best.since, 0);
  EXPECT_EQ(best.step, 4);
  EXPECT_FALSE(
      record::take_evaluation(best, ModelTask::kClassify, 5, engine::Part::kTest, std::nan(""), 0.9));
}

TEST(Best, OfOtherTasksIsTheLowestLoss) {
  record::Best best;
  EXPECT_FALSE(
      record::take_evaluation(best, ModelTask::kLanguage, 1, engine::Part::kValidation, std::nan(""), 0))
      << "no number";
  EXPECT_EQ(best.step, -1);
  EXPECT_TRUE(record::take_evaluation(best, ModelTask::kLanguage, 2, engine::Part::kValidation, 3.0, 0.2));
  EXPECT_TRUE(record::take_evaluation(best, ModelTask::kLanguage, 3, engine::Part::kValidation, 2.5, 0.1));
  EXPECT_FALSE(
      record::take_evaluation(best, ModelTask::kReconstruct, 4, engine::Part::kValidation, 2.6, 0.9));
  const Result<record::Best> back = record::best_from_json(to_json(best));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(to_json(*back), to_json(best));
  EXPECT_EQ(back->part, engine::Part::kValidation);
}

TEST(Best, IsNotKnownOfOldCheckpoints) {
  Json json = to_json(record::Position());
  json.erase("best");
  json.erase("stopped_early");
  const Result<record::Position> at = record::position_from_json(json);
  ASSERT_TRUE(at.ok()) << at.status().to_string();
  EXPECT_EQ(at->best.step, -1);
}

class BestModel : public testing::TrainedRuns {
 protected:
  struct Saves : record::Progress {
    void on_checkpoint(std::int64_t step) override { steps.push_back(step); }
    std::vector<std::int64_t> steps;
  };

  // Weights that no step changes: the first evaluation stays the best one.
  static job::Job still_job(int workers = 2) {
    job::Job job = testing::digits_job();
    job.model.name = "mlp";
    job.train.optimizer.lr = 1e-30;
    job.train.eval_steps = 1;
    job.train.checkpoint_steps = 100;
    job.parallel.workers = workers;
    return job;
  }
  static job::Job at_own_pace(job::Job job, const std::string& rule) {
    job.parallel.agreement = rule;
    job.train.logical_shards = 0;
    return job;
  }
  static Task<void> load_data(Runtime& rt, const job::Job& job, std::shared_ptr<const data::Dataset>& out) {
    auto data = co_await data::make_dataset(rt, job::data_spec(job, ""));
    if (data.ok()) out = *data;
  }
  Result<record::Summary> train_into(const std::string& name, const job::Job& job,
                                     record::Progress* progress = nullptr) {
    write(name + "/job.toml", job::to_toml(job));
    std::filesystem::create_directories(path(name) + "/checkpoints");
    start::InProcessOptions options;
    options.job = job;
    options.run_dir = path(name);
    options.progress = progress;
    run([&](Runtime& rt) { return load_data(rt, job, options.data); });
    return start::train_in_process(options)[0];
  }
  bool has_step(const std::string& run, int step) const {
    return std::filesystem::exists(path(fmt::format("{}/checkpoints/step-{:09}/manifest.json", run, step)));
  }
};

TEST_F(BestModel, IsKeptBesideTheTwoNewestAndLoaded) {
  for (const char* rule : {"bsp", "averaging"}) {
    SCOPED_TRACE(rule);
    job::Job job = still_job();
    if (std::string_view(rule) != "bsp") job = at_own_pace(job, rule);
    job.train.checkpoint_steps = 1;
    const Result<record::Summary> ran = train_into(rule, job);
    ASSERT_TRUE(ran.ok()) << ran.status().to_string();
    ASSERT_TRUE(ran->best.has_value());
    EXPECT_EQ(ran->best->step, 1);
    EXPECT_EQ(ran->best->part, engine::Part::kTest);
    EXPECT_FALSE(ran->stopped_early);
    for (int step = 1; step <= 6; ++step) EXPECT_EQ(has_step(rule, step), step == 1 || step >= 5) << step;
    apply::ModelSource source;
    source.path = path(rule);
    source.best = true;
    const Result<apply::LoadedModel> model = load(source);
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    EXPECT_EQ(model->step, 1);
    ASSERT_EQ(model->notes.size(), 1U);
    EXPECT_NE(model->notes[0].find("the best model, after step 1: test loss "), std::string::npos)
        << model->notes[0];
  }
}

TEST_F(BestModel, IsSavedWhenItIsFoundUnlessItIsNotAskedFor) {
  for (const bool keep : {true, false}) {
    job::Job job = still_job();
    job.train.keep_best = keep;
    Saves saves;
    const Result<record::Summary> ran = train_into(keep ? "kept" : "not", job, &saves);
    ASSERT_TRUE(ran.ok()) << ran.status().to_string();
    EXPECT_EQ(saves.steps, keep ? (std::vector<std::int64_t>{1, 6}) : std::vector<std::int64_t>{6});
  }
  apply::ModelSource source;
  source.path = path("not");
  source.best = true;
  EXPECT_NE(load(source).status().message().find("--best"), std::string::npos);
}

TEST_F(BestModel, ARunEndsAfterSoManyEvaluationsWithoutABetterOne) {
  std::string hash;
  for (const int workers : {1, 2, 4}) {
    job::Job job = still_job(workers);
    job.train.patience = 2;
    const Result<record::Summary> ran = train_into(fmt::format("{}", workers), job);
    ASSERT_TRUE(ran.ok()) << ran.status().to_string();
    EXPECT_EQ(ran->steps, 3) << workers << " workers";
    EXPECT_TRUE(ran->stopped_early);
    EXPECT_TRUE(ran->finished);
    EXPECT_GT(ran->test_loss, 0) << "the end is tested";
    if (hash.empty()) hash = ran->parameters_sha256;
    EXPECT_EQ(ran->parameters_sha256, hash) << workers << " workers";
  }
  job::Job averaging = at_own_pace(still_job(), "averaging");
  averaging.train.patience = 2;
  averaging.data.validation = 0.2;
  const Result<record::Summary> ran = train_into("averaging", averaging);
  ASSERT_TRUE(ran.ok()) << ran.status().to_string();
  EXPECT_EQ(ran->steps, 3);
  EXPECT_TRUE(ran->stopped_early);
  EXPECT_EQ(ran->best->part, engine::Part::kValidation);
  EXPECT_GT(ran->test_loss, 0);
}

TEST_F(BestModel, ARunThatEndedEarlyStaysEndedWhenItIsStartedAgain) {
  job::Job job = still_job();
  job.train.patience = 1;
  ASSERT_TRUE(train_into("run", job).ok());
  std::filesystem::remove(path("run/summary.json"));
  const Result<record::Summary> again = train_into("run", job);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->steps, 2);
  EXPECT_TRUE(again->stopped_early);
}

TEST_F(BestModel, EarlyStoppingWithoutSamplesToEvaluateIsRefused) {
  job::Job job = still_job();
  job.data = job::Job::Data();
  job.data.kind = "synthetic";
  job.data.options.set("shape", "6");
  job.data.options.set("num_train", 80);
  job.data.options.set("num_test", 0);
  job.data.test = 0;
  job.train.patience = 2;
  const Status refused = train_into("run", job).status();
  EXPECT_EQ(refused.code(), Code::kInvalid) << refused.to_string();
  EXPECT_NE(refused.message().find("train.patience"), std::string::npos) << refused.message();
}

// So little time that a checkpoint is always due, and so much that it never is.
TEST_F(BestModel, CheckpointsAreWrittenByTimeToo) {
  for (const char* rule : {"bsp", "averaging"}) {
    SCOPED_TRACE(rule);
    job::Job job = still_job();
    if (std::string_view(rule) != "bsp") job = at_own_pace(job, rule);
    job.train.eval_steps = 100;
    job.train.keep_best = false;
    Saves always, never;
    job.train.checkpoint_minutes = 1e-12;
    ASSERT_TRUE(train_into(std::string(rule) + "-always", job, &always).ok());
    job.train.checkpoint_minutes = 1e5;
    ASSERT_TRUE(train_into(std::string(rule) + "-never", job, &never).ok());
    EXPECT_EQ(never.steps, std::vector<std::int64_t>{6});
    if (std::string_view(rule) == "bsp")
      EXPECT_EQ(always.steps, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
    else
      EXPECT_EQ(always.steps.back(), 6);
  }
}

}  // namespace
}  // namespace trireme::train
