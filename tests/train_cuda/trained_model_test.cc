// Models that were trained on a GPU, or are judged on one: eval and predict.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/kernel_cuda/needs_gpu.h"
#include "tests/train/trained_runs.h"
#include "trireme/apply/generate.h"
#include "trireme/apply/predict.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::train {
namespace {

using runtime::Runtime;
using runtime::Task;
using ::testing::HasSubstr;

class TrainedOnGpu : public testing::TrainedRuns {
 protected:
  void SetUp() override {
    static const auto opened = kernel::cuda::open_device(0);
    TR_NEEDS_GPU(opened.ok() ? "" : opened.status().message());
  }
  static job::Job on_gpu(job::Job job) {
    job.train.device = "cuda";
    return job;
  }
  apply::LoadedModel load_on(const std::string& name, const std::string& device) {
    apply::ModelSource source;
    source.path = path(name);
    source.device = device;
    Result<apply::LoadedModel> model = load(std::move(source));
    EXPECT_TRUE(model.ok()) << model.status().to_string();
    return model.ok() ? std::move(*model) : apply::LoadedModel();
  }
  apply::Score score(const apply::LoadedModel& model) {
    Result<apply::Score> out = Status(Code::kInternal, "not run");
    run([&](Runtime& rt) { return score_into(rt, model, out); });
    EXPECT_TRUE(out.ok()) << out.status().to_string();
    return out.ok() ? *out : apply::Score();
  }
  static Task<void> score_into(Runtime& rt, const apply::LoadedModel& model, Result<apply::Score>& out) {
    out = co_await apply::score_model(rt, model, engine::Part::kTest);
  }
  static Task<void> classify_into(Runtime& rt, const apply::LoadedModel& model,
                                  std::vector<apply::Prediction>& out) {
    const apply::Samples samples = apply::samples_of_part(model, engine::Part::kTest);
    const auto found = co_await apply::classify(rt, model, samples, 10);
    EXPECT_TRUE(found.ok()) << found.status().to_string();
    if (found.ok()) out = *found;
  }
  static Task<void> generate_into(Runtime& rt, const apply::LoadedModel& model, std::string& out) {
    apply::GenerateOptions options;
    options.tokens = 20;
    options.temperature = 0;
    const auto made = co_await apply::generate(rt, model, options, {});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) out = made->text;
  }
};

TEST_F(TrainedOnGpu, ScoresHaveTheBitsOfTrainingThereAndNearlyThoseOfTheHost) {
  job::Job job = on_gpu(testing::digits_job());
  job.model.name = "mlp";
  job.parallel.workers = 1;
  for (const std::string precision : {"f32", "bf16"}) {
    job.train.precision = precision;
    const record::Summary trained = train(precision, job);
    for (const std::string device : {"", "cuda", "cpu"}) {
      const apply::LoadedModel model = load_on(precision, device);
      EXPECT_EQ(model.device != nullptr, device != "cpu");
      const apply::Score found = score(model);
      if (device == "cpu") {
        EXPECT_NEAR(found.loss, trained.test_loss, 1e-2 * std::abs(trained.test_loss)) << precision;
      } else {
        EXPECT_EQ(found.loss, trained.test_loss) << precision;
        EXPECT_EQ(found.accuracy, trained.test_accuracy) << precision;
      }
    }
  }
}

TEST_F(TrainedOnGpu, PredictionsOfAModelOfTheHostAreTheSameOnTheGpu) {
  job::Job job = testing::digits_job();
  job.model.name = "mlp";
  train("digits", job);
  std::vector<apply::Prediction> found[2];
  int at = 0;
  for (const std::string device : {"cpu", "cuda"}) {
    const apply::LoadedModel model = load_on("digits", device);
    run([&](Runtime& rt) { return classify_into(rt, model, found[at]); });
    ++at;
  }
  ASSERT_EQ(found[0].size(), found[1].size());
  ASSERT_FALSE(found[0].empty());
  for (std::size_t i = 0; i < found[0].size(); ++i)
    EXPECT_NEAR(found[0][i].probability, found[1][i].probability, 1e-4) << i;
}

TEST_F(TrainedOnGpu, ATextGoesOnTheSame) {
  write("text.txt", testing::small_text());
  train("text", testing::text_job(path("text.txt")));
  std::string texts[2];
  int at = 0;
  for (const std::string device : {"cpu", "cuda"}) {
    const apply::LoadedModel model = load_on("text", device);
    run([&](Runtime& rt) { return generate_into(rt, model, texts[at]); });
    ++at;
  }
  EXPECT_EQ(texts[0].size(), 20U);
  EXPECT_EQ(texts[1], texts[0]);
}

TEST_F(TrainedOnGpu, ADeviceThatDoesNotExistIsRefusedByName) {
  train("digits", testing::digits_job());
  apply::ModelSource source;
  source.path = path("digits");
  source.device = "tpu";
  const Result<apply::LoadedModel> refused = load(std::move(source));
  EXPECT_EQ(refused.status().code(), Code::kInvalid);
  EXPECT_THAT(refused.status().message(), HasSubstr("--device: got 'tpu', expected cpu, cuda or auto"));
}

}  // namespace
}  // namespace trireme::train
