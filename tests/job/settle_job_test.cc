#include "trireme/job/settle_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/data/options.h"

namespace trireme::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Job job_with(const std::vector<std::string>& set) {
  Job job;
  for (const std::string& assignment : set) EXPECT_TRUE(set_job_key(job, assignment).ok()) << assignment;
  return job;
}

data::Dataset set_of(Shape shape, std::int64_t num_train, DType dtype = DType::kF32) {
  data::Dataset set;
  set.sample_shape = shape;
  set.dtype = dtype;
  set.num_train = num_train;
  return set;
}

TEST(SettleJob, PicksForASmallTableWhatTheJobLeavesOpen) {
  Job job = job_with({"data.kind=csv", "data.path=iris.csv"});
  const auto notes = settle_job(job, set_of({4}, 135));
  EXPECT_EQ(job.model.name, "mlp");
  EXPECT_EQ(job.train.batch, 16);
  EXPECT_EQ(job.train.epochs, 67);
  EXPECT_EQ(job.train.eval_steps, 63) << "every seventh epoch of 9 steps";
  EXPECT_EQ(job.train.checkpoint_steps, 63);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("picked by the data, as the job does not say: model.name = \"mlp\""));
  EXPECT_THAT(notes[0], HasSubstr("train.epochs = 67, train.batch = 16"));
  EXPECT_TRUE(check_job(job).ok()) << check_job(job).to_string();
}

TEST(SettleJob, WhatIsGivenStands) {
  const std::vector<std::string> all = {"data.kind=csv",  "data.path=iris.csv",   "model.name=linear",
                                        "train.epochs=4", "train.batch=128",      "train.eval_steps=0",
                                        "train.steps=0",  "train.optimizer.lr=1", "train.optimizer.kind=sgd"};
  Job job = job_with(all);
  const std::string before = to_toml(job);
  EXPECT_THAT(settle_job(job, set_of({4}, 135)), IsEmpty());
  EXPECT_EQ(to_toml(job), before);
  Job steps = job_with({"data.kind=csv", "data.path=x", "model.name=mlp", "train.batch=32", "train.steps=5"});
  EXPECT_THAT(settle_job(steps, set_of({4}, 135)), IsEmpty());
  EXPECT_EQ(steps.train.epochs, 4);
}

TEST(SettleJob, DigitsAndLargeSetsKeepTheDefaults) {
  Job digits;
  EXPECT_THAT(settle_job(digits, set_of({1, 28, 28}, 60000, DType::kU8)), IsEmpty());
  EXPECT_EQ(to_toml(digits), to_toml(Job()));
  Job mnist = job_with({"data.kind=idx", "data.path=x"});
  const std::string before = to_toml(mnist);
  EXPECT_THAT(settle_job(mnist, set_of({1, 28, 28}, 60000, DType::kU8)), IsEmpty());
  EXPECT_EQ(to_toml(mnist), before);
  Job small_digits = job_with({"data.limit_train=600"});
  EXPECT_THAT(settle_job(small_digits, set_of({1, 28, 28}, 600, DType::kU8)), IsEmpty());
  EXPECT_EQ(small_digits.train.epochs, 4);
}

TEST(SettleJob, ImagesThatAreLargeAreNotSeenTooOften) {
  Job job = job_with({"data.kind=images", "data.path=x", "data.shape=3x224x224", "model.name=resnet18"});
  settle_job(job, set_of({3, 224, 224}, 1000, DType::kU8));
  EXPECT_LE(job.train.epochs, 6);
  Job tiny = job_with({"data.kind=images", "data.path=x", "data.shape=3x2x2"});
  settle_job(tiny, set_of({3, 2, 2}, 5000, DType::kU8));
  EXPECT_EQ(tiny.model.name, "mlp") << "too small for two poolings";
}

TEST(SettleJob, PixelsThatAreNoBytesByTypeAreReadAsBytes) {
  data::Dataset set = set_of({1, 8, 8}, 2000);
  set.holds_bytes = true;
  Job job = job_with({"data.kind=npy", "data.path=x"});
  settle_job(job, set);
  EXPECT_EQ(job.data.options.text(data::kPixelForm), "bytes");
  Job floats = job_with({"data.kind=npy", "data.path=x", "data.pixels=floats"});
  settle_job(floats, set);
  EXPECT_EQ(floats.data.options.text(data::kPixelForm), "floats");
}

TEST(SettleJob, TellsOfOptionsThatTheKindOfDataDoesNotHave) {
  const data::Dataset set = set_of({1, 28, 28}, 2000);
  Job job = job_with({"data.context=64", "data.label=fine", "data.stride=0"});
  const std::vector<std::string> notes = settle_job(job, set);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(
      notes[0],
      "without effect on data.kind = \"digits\": data.label = \"fine\" (for cifar, csv), data.context = "
      "64 (for text)")
      << "a default says nothing";
  Job read = job_with({"data.kind=synthetic", "data.classes=3"});
  EXPECT_TRUE(settle_job(read, set).empty());
}

TEST(SettleJob, TextsGetALanguageModelWithItsOptimizer) {
  Job job = job_with({"data.kind=text", "data.path=x"});
  settle_job(job, set_of({128}, 8000, DType::kI32));
  EXPECT_EQ(job.model.name, "char-gpt");
  EXPECT_EQ(job.train.optimizer.kind, "adamw");
  EXPECT_EQ(job.train.batch, 32);
  EXPECT_TRUE(check_job(job).ok()) << check_job(job).to_string();
  Job own = job_with({"data.kind=text", "data.path=x", "model.name=char-lstm"});
  settle_job(own, set_of({128}, 8000, DType::kI32));
  EXPECT_EQ(own.train.optimizer.kind, "momentum") << "picked together with the model only";
}

TEST(SettleModel, PicksWithoutTheDataWhatTheDataWouldPick) {
  Job table = job_with({"data.kind=csv"});
  settle_model(table, std::nullopt);
  EXPECT_EQ(table.model.name, "mlp") << "a row is no image, however long";
  EXPECT_THAT(table.picked, ElementsAre("model.name"));
  Job vectors = job_with({"data.kind=npy"}), images = job_with({"data.kind=npy"});
  settle_model(vectors, Shape{12});
  settle_model(images, Shape{3, 8, 8});
  EXPECT_EQ(vectors.model.name, "mlp");
  EXPECT_EQ(images.model.name, "lenet");
  Job text = job_with({"data.kind=text"}), settled = job_with({"data.kind=text", "data.path=x"});
  settle_model(text, std::nullopt);
  settle_job(settled, set_of({128}, 8000, DType::kI32));
  EXPECT_EQ(text.model.name, settled.model.name);
  EXPECT_EQ(text.train.batch, settled.train.batch);
  EXPECT_EQ(text.train.optimizer.kind, settled.train.optimizer.kind);
  Job digits = job_with({"model.name=lenet"}), own = job_with({"data.kind=csv", "model.name=linear"});
  settle_model(digits, Shape{4});
  settle_model(own, Shape{4});
  EXPECT_THAT(digits.picked, IsEmpty());
  EXPECT_EQ(own.model.name, "linear");
}

TEST(SettleJob, ABatchIsAtMostTheTrainingSamples) {
  Job job = job_with({"train.batch=20000", "data.limit_train=600"});
  EXPECT_THAT(settle_job(job, set_of({1, 28, 28}, 600, DType::kU8)),
              ElementsAre("train.batch = 20000 is more than the 600 training samples; the batch is 600"));
  EXPECT_EQ(job.train.batch, 600);
  EXPECT_THAT(settle_job(job, set_of({1, 28, 28}, 600, DType::kU8)), IsEmpty()) << "once";
  Job sharded = job_with({"train.batch=64", "train.logical_shards=16"});
  settle_job(sharded, set_of({4}, 10));
  EXPECT_EQ(sharded.train.batch, 16) << "a sample for each shard, or padding";
}

TEST(SettleJob, ARunOfAnOlderVersionGoesOnAsItBegan) {
  const std::vector<std::string> sets = {"data.kind=csv", "data.path=iris.csv", "model.name=mlp"};
  const Job asked = job_with(sets), before = job_with(sets);
  Job job = asked;
  settle_job(job, set_of({4}, 135));
  EXPECT_NE(diff_jobs(before, job), "");
  EXPECT_TRUE(keep_as_begun(job, asked, before));
  EXPECT_EQ(diff_jobs(before, job), "");
  const Job other = job_with({"data.kind=csv", "data.path=iris.csv", "model.name=mlp", "train.batch=8"});
  settle_job(job, set_of({4}, 135));
  const std::string settled = to_toml(job);
  EXPECT_FALSE(keep_as_begun(job, asked, other)) << "another job is refused, not taken over";
  EXPECT_EQ(to_toml(job), settled);
}

TEST(SettleJob, ARunThatIsTrainedOnIsEvaluatedAsBefore) {
  Job before = job_with({"data.kind=csv", "data.path=iris.csv"});
  settle_job(before, set_of({4}, 135));
  const Job asked = job_with({"data.kind=csv", "data.path=iris.csv", "train.epochs=100"});
  Job job = asked;
  settle_job(job, set_of({4}, 135));
  EXPECT_TRUE(keep_as_begun(job, asked, before));
  EXPECT_EQ(diff_jobs(before, job), "  train.epochs: 67 -> 100\n");
}

TEST(OpenKeys, AreLeftOutOfTheJobThatTravels) {
  const Job job = job_with({"data.kind=csv", "data.path=x", "train.batch=8"});
  const auto open = open_keys(job);
  const Job there = *parse_job(to_toml(job, open), "job");
  EXPECT_FALSE(there.given_at.contains("model.name"));
  EXPECT_TRUE(there.given_at.contains("train.batch"));
  EXPECT_TRUE(there.given_at.contains("data.path"));
  EXPECT_EQ(to_toml(there), to_toml(job));
}

}  // namespace
}  // namespace trireme::job
