// A run folder gives back the model that the trainer measured, or says what is wrong with it.
#include "trireme/apply/load_model.h"

#include <algorithm>
#include <filesystem>

#include "tests/train/trained_runs.h"
#include "trireme/apply/score_model.h"

namespace trireme::train {
namespace {

using runtime::Runtime;
using runtime::Task;
using testing::digits_job;

class LoadModel : public testing::TrainedRuns {
 protected:
  Result<apply::Score> score(const apply::LoadedModel& model, engine::Part part = engine::Part::kTest) {
    Result<apply::Score> out = Status(Code::kInternal, "not run");
    run([&](Runtime& rt) { return score_into(rt, model, part, out); });
    return out;
  }
  static Task<void> score_into(Runtime& rt, const apply::LoadedModel& model, engine::Part part,
                               Result<apply::Score>& out) {
    out = co_await apply::score_model(rt, model, part);
  }

  void expect_same_as_trained(const std::string& name, const job::Job& job) {
    const record::Summary trained = train(name, job);
    const apply::LoadedModel model = load(name);
    ASSERT_NE(model.data, nullptr);
    EXPECT_EQ(model.step, trained.steps) << name;
    const Result<apply::Score> found = score(model);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_EQ(found->loss, trained.test_loss) << name;
    EXPECT_EQ(found->accuracy, trained.test_accuracy) << name;
  }

  void expect_failure(apply::ModelSource source, Code code, const std::string& says) {
    const Result<apply::LoadedModel> model = load(std::move(source));
    ASSERT_FALSE(model.ok()) << says;
    EXPECT_EQ(model.status().code(), code) << model.status().message();
    EXPECT_NE(model.status().message().find(says), std::string::npos) << model.status().message();
  }
};

TEST_F(LoadModel, ScoresHaveTheBitsOfTheTrainersLastEvaluation) {
  write("text.txt", testing::small_text());
  expect_same_as_trained("digits", digits_job());
  expect_same_as_trained("norm", testing::batch_norm_job());
  expect_same_as_trained("autoencoder", testing::autoencoder_job());
  expect_same_as_trained("text", testing::text_job(path("text.txt")));
  job::Job bf16 = digits_job();
  bf16.model.name = "mlp";
  bf16.train.precision = "bf16";
  bf16.train.logical_shards = 0;
  expect_same_as_trained("bf16", bf16);
}

TEST_F(LoadModel, ConfusionCountsEverySampleOnce) {
  train("run", digits_job());
  const apply::LoadedModel model = load("run");
  const Result<apply::Score> found = score(model, engine::Part::kTrain);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  std::int64_t all = 0, right = 0;
  for (std::size_t i = 0; i < 100; ++i)
    all += found->confusion[i], right += i % 11 == 0 ? found->confusion[i] : 0;
  EXPECT_EQ(all, 120);
  EXPECT_DOUBLE_EQ(static_cast<double>(right) / 120, found->accuracy);
  EXPECT_FALSE(found->top5.has_value()) << "five of ten classes say little";
  const auto worst = apply::worst_confusions(*found, 10, 3);
  for (std::size_t i = 1; i < worst.size(); ++i) EXPECT_LE(worst[i].count, worst[i - 1].count);
}

TEST_F(LoadModel, OfManyClassesTheBestFiveCountToo) {
  job::Job job = digits_job();
  job.model.name = "mlp";
  job.data = job::Job::Data();
  job.data.kind = "synthetic";
  job.data.options.set("shape", "6");
  job.data.options.set("classes", 12);
  job.data.options.set("num_train", 80);
  job.data.options.set("num_test", 50);
  train("run", job);
  const apply::LoadedModel model = load("run");
  const Result<apply::Score> found = score(model);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  ASSERT_TRUE(found->top5.has_value());
  EXPECT_GT(*found->top5, found->accuracy);
  EXPECT_LT(*found->top5, 1) << "some sample of this hardly trained model is not among the five";
  EXPECT_TRUE(to_json(*found, model).contains("top5_accuracy"));
}

TEST_F(LoadModel, APartWithoutSamplesIsRefused) {
  train("run", digits_job());
  const Result<apply::Score> found = score(load("run"), engine::Part::kValidation);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), Code::kInvalid);
  EXPECT_NE(found.status().message().find("data.validation"), std::string::npos) << found.status().message();
}

TEST_F(LoadModel, OnlyWhatTheEvaluationReadsIsKept) {
  job::Job job = digits_job();
  job.train.optimizer.kind = "adam";
  train("run", job);
  const apply::LoadedModel model = load("run");
  for (const std::string& name : model.variables->names())
    EXPECT_TRUE(std::any_of(model.parameters.begin(), model.parameters.end(), [&](const auto& p) {
      return p.name == name;
    })) << name;
  EXPECT_EQ(model.variables->names().size(), model.parameters.size());
  EXPECT_TRUE(model.notes.empty());
}

TEST_F(LoadModel, AnUnfinishedRunSaysSo) {
  train("run", digits_job());
  std::filesystem::remove(path("run/summary.json"));
  const apply::LoadedModel model = load("run");
  ASSERT_EQ(model.notes.size(), 1U);
  EXPECT_NE(model.notes[0].find("unfinished; this is the model after step 6"), std::string::npos)
      << model.notes[0];
}

TEST_F(LoadModel, AnEarlierCheckpointIsTakenByItsPathAndSaysSo) {
  job::Job job = digits_job();
  job.train.checkpoint_steps = 3;
  train("run", job);
  apply::ModelSource source;
  source.path = path("run");
  source.checkpoint = path("run/checkpoints/step-000000003");
  const Result<apply::LoadedModel> model = load(source);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->step, 3);
  ASSERT_EQ(model->notes.size(), 1U);
  EXPECT_NE(model->notes[0].find("step 3 of 6"), std::string::npos) << model->notes[0];
}

TEST_F(LoadModel, ACheckpointAndAJobFileAreEnough) {
  const record::Summary trained = train("run", digits_job());
  write("job.toml", job::to_toml(digits_job()));
  apply::ModelSource source;
  source.path = path("run/checkpoints/step-000000006");
  source.job_path = path("job.toml");
  source.sets = {"data.limit_test=40"};
  const Result<apply::LoadedModel> model = load(source);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->data->num_test, 40);
  EXPECT_TRUE(model->notes.empty());
  source.sets = {"data.limit_train=50"};
  const Result<apply::LoadedModel> fewer = load(source);
  ASSERT_TRUE(fewer.ok()) << fewer.status().to_string();
  EXPECT_TRUE(fewer->notes.empty()) << "the checkpoint keeps classes and normalization";
  source.path += "/tensors-00001-of-00001.safetensors";
  const Result<apply::LoadedModel> bare = load(source);
  ASSERT_TRUE(bare.ok()) << bare.status().to_string();
  ASSERT_EQ(bare->notes.size(), 1U);
  EXPECT_NE(bare->notes[0].find("data.limit_train may change"), std::string::npos) << bare->notes[0];
  EXPECT_EQ(trained.steps, model->step);
}

TEST_F(LoadModel, WithoutSamplesNothingOfTheDataIsRead) {
  write("text.txt", testing::small_text());
  train("text", testing::text_job(path("text.txt")));
  std::filesystem::remove(path("text.txt"));
  apply::ModelSource source;
  source.path = path("text");
  source.needs_text = false;
  const Result<apply::LoadedModel> model = load(source);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->data->num_train, 0);
  EXPECT_EQ(model->data->class_names, (std::vector<std::string>{"\n", " ", "a", "b"}));
  source.needs_text = true;
  expect_failure(source, Code::kNotFound, "--data.path");
}

TEST_F(LoadModel, WhatIsWrongIsNamed) {
  train("digits", digits_job());
  train("autoencoder", testing::autoencoder_job());
  const auto from = [&](const std::string& run) {
    apply::ModelSource source;
    source.path = path(run);
    return source;
  };
  expect_failure(from("nowhere"), Code::kInvalid, "no job.toml");
  apply::ModelSource other = from("digits");
  other.checkpoint = path("autoencoder");
  expect_failure(other, Code::kInvalid, "it lacks 'conv1/bias'");
  apply::ModelSource set = from("digits");
  set.sets = {"model.name=mlp"};
  expect_failure(set, Code::kInvalid, "only keys of [data]");
  set.sets = {"data.kind=idx", "data.path=nowhere"};
  expect_failure(set, Code::kNotFound, "--data.path");
  apply::ModelSource job = from("digits");
  job.job_path = path("no.toml");
  expect_failure(job, Code::kInvalid, "no.toml");
  write("wider/job.toml", job::to_toml([] {
          job::Job wide = testing::autoencoder_job();
          wide.model.options = {{"hidden", 17}};
          return wide;
        }()));
  apply::ModelSource wider = from("wider");
  wider.checkpoint = path("autoencoder");
  expect_failure(wider, Code::kInvalid, "'decoder/weight' is ");
  std::filesystem::remove_all(path("digits/checkpoints"));
  std::filesystem::create_directories(path("digits/checkpoints"));
  expect_failure(from("digits"), Code::kNotFound, "no whole checkpoint");
  std::filesystem::remove_all(path("digits/checkpoints"));
  expect_failure(from("digits"), Code::kNotFound, "no whole checkpoint");
}

}  // namespace
}  // namespace trireme::train
