// Losses and gradients that are no numbers: the run stops and says where it broke, or skips the step.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_parts.h"

namespace trireme::train::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::shared_ptr<data::Dataset> pictures(float factor) {
  auto set = tiny_pictures(36, 9);
  for (float& v : set->features) v *= factor;
  return set;
}

// What every rank of a run that must fail says.
std::vector<std::string> messages_of(const RunOutcome& out) {
  std::vector<std::string> messages;
  for (const auto& rank : out.ranks) {
    EXPECT_FALSE(rank.ok());
    messages.push_back(rank.ok() ? "" : rank.status().message());
  }
  return messages;
}

float scalar(const io::Checkpoint& checkpoint, std::string_view name) {
  for (const auto& [key, tensor] : checkpoint.tensors)
    if (key == name) return *tensor.data<float>();
  ADD_FAILURE() << name << " is missing";
  return 0;
}

std::string initial_hash(const job::Job& job, const data::Dataset& data) {
  io::NamedTensors tensors;
  const model::ModelGraphs graphs = *job::build_job_model(job, *job::model_input(job, data), 1);
  for (const model::Parameter& p : graphs.parameters) {
    tensors.emplace_back(p.name, *Tensor::allocate(cpu_device(), p.type));
    model::initialise(p, static_cast<std::uint64_t>(job.train.seed), tensors.back().second.values<float>());
  }
  return io::parameters_sha256(tensors);
}

TEST(NotANumber, WeightsThatGrewTooLargeNameTheStepAndTheFirstTensorThatBroke) {
  job::Job job = tiny_job();
  job.train.optimizer.lr = 1e25;
  job.train.optimizer.warmup = 0;
  for (const int workers : {1, 2}) {
    SCOPED_TRACE(workers);
    job.parallel.workers = workers;
    VirtualRuns runs;
    const RunOutcome out = runs.train(job, pictures(1));
    ASSERT_FALSE(out.steps.empty());
    EXPECT_TRUE(std::isfinite(out.steps.back().loss));
    const auto expected = fmt::format("the loss is not a number at step {}", out.steps.back().step + 1);
    int explained = 0;
    for (const std::string& message : messages_of(out)) {
      EXPECT_NE(message.find(expected), std::string::npos) << message;
      const bool first = message.find("the first tensor that broke: '") != std::string::npos;
      const bool layer = message.find("dense1/") != std::string::npos ||
                         message.find("classifier1/") != std::string::npos ||
                         message.find("softmax_cross_entropy") != std::string::npos;
      explained += first && layer ? 1 : 0;
      EXPECT_NE(message.find("train.optimizer.lr"), std::string::npos) << message;
    }
    EXPECT_EQ(explained, workers) << messages_of(out)[0];
  }
}

TEST(NotANumber, DataThatIsNoNumberIsNamedAsSuch) {
  auto set = pictures(1);
  for (float& v : set->features) v = kInf;
  VirtualRuns runs;
  for (const std::string& message : messages_of(runs.train(tiny_job(), set))) {
    EXPECT_NE(message.find("at step 1;"), std::string::npos) << message;
    EXPECT_NE(message.find("the data of this batch"), std::string::npos) << message;
  }
}

TEST(NotANumber, SkippedStepsAreCountedAndChangeNothing) {
  auto set = pictures(1);
  for (std::size_t i = 0; i < set->features.size(); i += 36)
    if (i / 36 < 36) set->features[i] = kInf;  // every training sample, no test sample
  job::Job job = tiny_job();
  job.train.nan = "skip";
  job.parallel.workers = 2;
  VirtualRuns runs;
  const record::Summary s = runs.train(job, set).summary();
  EXPECT_EQ(s.steps, 10);
  EXPECT_EQ(s.skipped_steps, 10);
  EXPECT_EQ(s.parameters_sha256, initial_hash(job, *set));
  EXPECT_TRUE(std::isfinite(s.train_loss));
  EXPECT_TRUE(std::isfinite(s.test_loss));
  int skipped = 0;
  for (const Json& line : runs.metrics()) skipped += line.value("skipped", false) ? 1 : 0;
  EXPECT_EQ(skipped, 10);
  job::Job untouched = job;
  untouched.train.optimizer.lr = 1;
  VirtualRuns fine;
  EXPECT_NE(fine.train(untouched, pictures(1)).summary().parameters_sha256, initial_hash(job, *set));
}

// Pictures so bright that their gradients times the first loss scale, 65536, exceed the largest f16.
TEST(NotANumber, OverflowInHalfPrecisionHalvesTheLossScaleUntilGradientsFit) {
  job::Job job = tiny_job();
  job.train.precision = "f16";
  job.train.steps = 20;
  job.train.optimizer.lr = 1e-5;
  VirtualRuns runs;
  const record::Summary s = runs.train(job, pictures(100)).summary();
  EXPECT_GT(s.skipped_steps, 0);
  EXPECT_LT(s.skipped_steps, 20);
  EXPECT_EQ(scalar(runs.checkpoint(), "loss_scale"),
            std::ldexp(65536.0F, -static_cast<int>(s.skipped_steps)));
  VirtualRuns dim;
  const record::Summary fits = dim.train(job, pictures(0.1F)).summary();
  EXPECT_EQ(fits.skipped_steps, 0);
  EXPECT_EQ(scalar(dim.checkpoint(), "loss_scale"), 65536.0F);
}

}  // namespace
}  // namespace trireme::train::testing
