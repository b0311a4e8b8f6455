// Models of all kinds train as pipelines: to what one worker trains them to without segments, and to the same
// bits on every mesh.
#include <gtest/gtest.h>

#include "tests/train/mesh/mesh_jobs.h"
#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/prepare/prepare.h"
#include "trireme/prepare/stages.h"

namespace trireme::train::testing {
namespace {

constexpr int kSegments = 4;

std::shared_ptr<const data::Dataset> colored_pictures(std::int64_t side) {
  auto set = std::make_shared<data::Dataset>();
  set->name = set->source = "colored pictures";
  set->sample_shape = Shape{3, side, side};
  set->dtype = DType::kF32;
  set->num_classes = 4;
  set->num_train = 8;
  set->num_test = 4;
  for (std::int64_t row = 0; row < set->num_samples(); ++row) {
    set->labels.push_back(static_cast<std::int32_t>(row % set->num_classes));
    for (std::int64_t i = 0; i < 3 * side * side; ++i)
      set->features.push_back(0.01F * static_cast<float>((row * 131 + i * 29 + i * i * 7) % 200) - 1);
  }
  return set;
}

job::Job zoo_job(const std::string& model, const Json& options) {
  job::Job job = tiny_job();
  job.model.layers = Json::array();
  job.model.name = model;
  job.model.options = options;
  job.train.steps = 3;
  job.train.batch = 8;
  job.train.checkpoint_steps = 3;
  job.train.eval_steps = 3;
  job.train.optimizer.lr = 0.02;
  job.parallel.bucket_bytes = 1 << 14;
  return job;
}

TinyCase text_case(const std::string& name, const std::string& model, const Json& options) {
  TinyCase c{name, zoo_job(model, options), tiny_text(24, 9)};
  c.job.data.kind = "text";
  c.job.data.path = "tiny.txt";
  c.job.train.optimizer.kind = "adam";
  return c;
}

std::vector<TinyCase> model_cases() {
  std::vector<TinyCase> cases;
  const Json gpt{{"width", 8}, {"layers", 3}, {"heads", 2}, {"dropout", 0.2}};
  // Norms with statistics and skips; branches with dropout behind them.
  cases.push_back({"resnet", zoo_job("resnet18", {{"scale", 0.05}}), colored_pictures(32)});
  cases.push_back({"googlenet", zoo_job("googlenet", {{"scale", 0.05}}), colored_pictures(32)});
  cases.push_back(text_case("lstm", "char-lstm", {{"width", 6}, {"layers", 3}, {"dropout", 0.2}}));
  cases.push_back(text_case("gpt", "char-gpt", gpt));
  for (const char* precision : {"bf16", "f16"}) {
    cases.push_back(text_case(std::string("gpt_") + precision, "char-gpt", gpt));
    cases.back().job.train.precision = precision;
  }
  return cases;
}

job::Job in_segments(job::Job job, const std::string& mesh) {
  job.train.logical_shards = 4;
  job.options.set(job::kSegments.name, std::int64_t{kSegments});
  job.parallel.mesh = mesh;
  job::take_workers_of_mesh(job, false);
  return job;
}

io::NamedTensors tensors_of(const job::Job& job, const std::shared_ptr<const data::Dataset>& data) {
  VirtualRuns runs;
  EXPECT_TRUE(runs.train(job, data).summary().finished);
  return runs.checkpoint().tensors;
}

class PipelineModels : public ::testing::TestWithParam<std::size_t> {};

TEST_P(PipelineModels, TrainToWhatOneWorkerTrainsThemTo) {
  const TinyCase c = model_cases()[GetParam()];
  job::Job whole = c.job;
  whole.train.logical_shards = 4;
  const bool low = c.job.train.precision != "f32";
  expect_close(tensors_of(in_segments(c.job, "stage=4"), c.data), tensors_of(whole, c.data),
               low ? 0.1 : 1e-3);
}

TEST_P(PipelineModels, TrainToTheSameBitsOnEveryMesh) {
  const TinyCase c = model_cases()[GetParam()];
  const std::string expected = hash_virtual(in_segments(c.job, "data=1"), c.data);
  ASSERT_EQ(expected.size(), 64U);
  for (const char* mesh : {"stage=3", "data=2,stage=4"})
    EXPECT_EQ(hash_virtual(in_segments(c.job, mesh), c.data), expected) << mesh;
}

INSTANTIATE_TEST_SUITE_P(Zoo, PipelineModels, ::testing::Range(std::size_t{0}, model_cases().size()),
                         [](const auto& info) { return model_cases()[info.param].name; });

// Nothing is sent back to stages behind which nothing is trained.
TEST(PipelineOfFrozenLayers, GoesBackAsFarAsSomethingIsTrained) {
  const auto data = tiny_pictures(24, 8);
  job::Job job = tiny_job();
  const Json wide{{"kind", "dense"}, {"out", 8}, {"activation", "relu"}};
  job.model.layers = Json::array({wide, wide, wide, {{"kind", "classifier"}}});
  job.model.freeze = {"dense1", "dense2"};
  const std::string expected = hash_virtual(in_segments(job, "data=1"), data);
  ASSERT_EQ(expected.size(), 64U);
  EXPECT_EQ(hash_virtual(in_segments(job, "stage=4"), data), expected);
  EXPECT_EQ(hash_virtual(in_segments(job, "data=2,stage=2"), data), expected);
  job::Job whole = job;
  whole.train.logical_shards = 4;
  expect_close(tensors_of(in_segments(job, "stage=4"), data), tensors_of(whole, data), 1e-4);

  prepare::PrepareOptions options;
  options.stages = 4;
  const job::Job cut = in_segments(job, "stage=4");
  const auto prepared = prepare::prepare(cut, *job::model_input(cut, *data), options);
  ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
  const prepare::Stages& stages = *(*prepared)->stages;
  ASSERT_EQ(stages.train.size(), 3U);
  for (const parallel::Crossing& c : stages.train) EXPECT_EQ(c.comes_back, c.from >= 2) << c.name;
  const auto work_back = [&](int segment) {
    const cost::OpCost& back =
        stages.costs[static_cast<std::size_t>(segment)].phases[prepare::kBackwardPhase];
    return back.flops;
  };
  EXPECT_EQ(work_back(0) + work_back(1), 0);
  EXPECT_GT(work_back(3), 0);
}

}  // namespace
}  // namespace trireme::train::testing
