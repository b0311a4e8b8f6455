// The trainer against PyTorch: losses of every step and the test loss at the end, recorded by
// tests/train/record_losses.py from the same initial weights and the same batches, which these tests write
// for it: into $TRIREME_SAMPLES, or into a folder of their own.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/runtime/temp_dir.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/io/safetensors.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/sample_order.h"
#include "trireme/prepare/batch.h"

namespace trireme::train::testing {
namespace {

// What no formula of PyTorch repeats: dropout draws from our own generator, 16-bit products round. Experts
// have a reference of their own (tests/model/experts_test.cc).
constexpr std::string_view kNotRecorded[] = {"dropout", "bf",     "half", "text",
                                             "bftext",  "target", "lars", "experts"};

std::vector<TinyCase> loss_cases() {
  std::vector<TinyCase> cases;
  for (TinyCase& c : tiny_cases())
    if (std::find(std::begin(kNotRecorded), std::end(kNotRecorded), c.name) == std::end(kNotRecorded))
      cases.push_back(std::move(c));
  TinyCase text{"text", tiny_job(), tiny_text(40, 9)};
  text.job.model.layers = Json::array();
  text.job.model.name = "char-lstm";
  text.job.model.options = Json{{"width", 6}, {"layers", 2}, {"dropout", 0}};
  text.job.data.kind = "text";
  text.job.train.optimizer.kind = "adamw";
  text.job.train.optimizer.options.set("weight_decay", 0.3);
  text.job.train.optimizer.lr = 0.02;
  text.job.train.optimizer.clip_norm = 0.05;
  cases.push_back(std::move(text));
  TinyCase scaled{"scaled", tiny_job(), tiny_pictures(40, 10, 8)};
  job::Job::Optimizer& o = scaled.job.train.optimizer;
  o.lr = 0.02;
  o.reference_batch = 6;
  o.warmup = 0.3;
  o.schedule = "step";
  o.milestones = {0.5, 0.75};
  cases.push_back(std::move(scaled));
  // Velocities were last scaled in the last step that was not skipped.
  TinyCase both{"correctedskipping", tiny_job(), nullptr};
  auto set = tiny_pictures(40, 10, 8);
  set->features[36 * 17 + 5] = std::numeric_limits<float>::infinity();
  both.data = set;
  both.job.train.nan = "skip";
  both.job.train.optimizer.options.set("rate_inside", true);
  both.job.train.optimizer.correct_momentum = true;
  both.job.train.optimizer.warmup = 0.8;
  cases.push_back(std::move(both));
  return cases;
}

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Json recorded() {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  TR_CHECK(root != nullptr, "TRIREME_SOURCE_DIR is not set");
  const std::string path = std::string(root) + "/tests/train/recorded/losses.json";
  const Result<Json> json = parse_json(slurp(path), path);
  TR_CHECK(json.ok(), "{}", json.status().to_string());
  return *json;
}

// The values of several batches behind each other, for names that the set fills.
struct Inputs {
  std::vector<float> x, weights;
  std::vector<std::int32_t> tokens, labels;
};

void append_batch(const TinyCase& c, const data::ShardSamples& samples, const data::FillOptions& options,
                  Inputs& to) {
  const data::Dataset& set = *c.data;
  const std::size_t n = samples.ids.size(), elems = n * static_cast<std::size_t>(set.sample_elems());
  std::vector<float> x(elems), weights(n);
  std::vector<std::int32_t> tokens(elems), labels(n * static_cast<std::size_t>(set.label_elems()));
  data::BatchView view;
  if (set.dtype == DType::kI32)
    view.tokens = tokens;
  else
    view.features = x;
  view.labels = labels;
  view.weights = weights;
  data::fill_batch(set, samples.ids, options, view);
  std::fill(weights.begin() + samples.num_valid, weights.end(), 0.0F);
  to.x.insert(to.x.end(), x.begin(), x.end());
  to.tokens.insert(to.tokens.end(), tokens.begin(), tokens.end());
  to.labels.insert(to.labels.end(), labels.begin(), labels.end());
  to.weights.insert(to.weights.end(), weights.begin(), weights.end());
}

void add_inputs(const TinyCase& c, const Inputs& inputs, const std::string& prefix,
                std::vector<std::int64_t> dims, io::NamedTensors& out) {
  out.emplace_back(prefix + "weights", Tensor::from<float>(inputs.weights, Shape(dims)));
  std::vector<std::int64_t> whole = dims;
  for (const std::int64_t d : c.data->sample_shape.dims()) whole.push_back(d);
  const bool text = c.data->dtype == DType::kI32;
  if (text)
    out.emplace_back(prefix + "x", Tensor::from<std::int32_t>(inputs.tokens, Shape(whole)));
  else
    out.emplace_back(prefix + "x", Tensor::from<float>(inputs.x, Shape(whole)));
  out.emplace_back(prefix + "labels",
                   Tensor::from<std::int32_t>(inputs.labels, text ? Shape(whole) : Shape(dims)));
}

// "init/<parameter>", and as [batch, shard, sample, ...]: "x", "labels", "weights"; of the test samples
// "test_x"...
io::NamedTensors inputs_of(const TinyCase& c) {
  io::NamedTensors out;
  const auto seed = static_cast<std::uint64_t>(c.job.train.seed);
  const auto shards = static_cast<std::int32_t>(c.job.train.logical_shards);
  const model::ModelInput input = *job::model_input(c.job, *c.data);
  const model::ModelGraphs graphs = *job::build_job_model(c.job, input, 1);
  for (const auto* list : {&graphs.parameters, &graphs.frozen}) {
    for (const model::Parameter& p : *list) {
      const Tensor t = *Tensor::allocate(cpu_device(), p.type);
      model::initialise(p, seed, t.values<float>());
      out.emplace_back("init/" + p.name, t);
    }
  }
  const job::SampleOrder order = *job::SampleOrder::make(*c.data, c.job, shards, !graphs.statistics.empty());
  Inputs train, test;
  data::FillOptions options{.augment = true, .seed = seed};
  const std::int64_t batches = c.job.train.steps, per_epoch = order.batches_per_epoch();
  for (std::int64_t b = 0; b < batches; ++b) {
    options.epoch = b / per_epoch;
    for (std::int32_t s = 0; s < shards; ++s)
      append_batch(c, order.shard(options.epoch, b % per_epoch, s), options, train);
  }
  add_inputs(c, train, "", {batches, shards, order.shard_batch()}, out);
  data::ShardSamples all;
  for (std::int64_t i = 0; i < c.data->num_test; ++i) all.ids.push_back(c.data->num_train + i);
  all.num_valid = c.data->num_test;
  append_batch(c, all, {}, test);
  add_inputs(c, test, "test_", {c.data->num_test}, out);
  return out;
}

// Tells a change of weights or batches from a change of training.
double magnitude(const io::NamedTensors& tensors) {
  double sum = 0;
  for (const auto& [name, t] : tensors)
    for (std::int64_t i = 0; i < t.shape().num_elems(); ++i) {
      const double v = t.dtype() == DType::kF32 ? t.data<float>()[i] : t.data<std::int32_t>()[i];
      if (std::isfinite(v)) sum += std::abs(v);
    }
  return sum;
}

TEST(RecordedLosses, AreThoseOfPyTorchForEveryStepAndTheTestSamples) {
  const Json record = recorded();
  const double tolerance = record.at("tolerance");
  for (const TinyCase& c : loss_cases()) {
    SCOPED_TRACE(c.name);
    ASSERT_TRUE(record.at("cases").contains(c.name)) << "run tests/train/record_losses.py";
    const Json& expected = record.at("cases").at(c.name);
    const double inputs = expected.at("inputs");
    ASSERT_NEAR(magnitude(inputs_of(c)), inputs, 1e-5 * inputs) << "other weights or batches than recorded";
    VirtualRuns runs;
    job::Job job = c.job;
    job.parallel.workers = 2;
    const RunOutcome out = runs.train(job, c.data, {.run_dir = ""});
    const record::Summary summary = out.summary();
    ASSERT_EQ(out.steps.size(), expected.at("losses").size());
    for (std::size_t i = 0; i < out.steps.size(); ++i) {
      const Json& loss = expected.at("losses")[i];
      EXPECT_EQ(out.steps[i].skipped, loss.is_null()) << "step " << i + 1;
      if (loss.is_null()) continue;
      EXPECT_NEAR(out.steps[i].loss, loss.get<double>(), tolerance * loss.get<double>()) << "step " << i + 1;
    }
    const double test_loss = expected.at("test_loss");
    EXPECT_NEAR(summary.test_loss, test_loss, tolerance * test_loss);
    EXPECT_NEAR(summary.test_accuracy, expected.at("test_accuracy").get<double>(), 1e-6);
  }
  EXPECT_EQ(record.at("cases").size(), loss_cases().size());
}

TEST(RecordedLosses, TheirInputsAreWrittenForTheRecorder) {
  const runtime::TempDir temp;
  const char* wanted = std::getenv("TRIREME_SAMPLES");
  for (const TinyCase& c : loss_cases()) {
    const io::NamedTensors tensors = inputs_of(c);
    const Result<Bytes> bytes = io::encode_safetensors(tensors);
    ASSERT_TRUE(bytes.ok()) << c.name;
    const std::string path =
        (wanted != nullptr ? std::string(wanted) : temp.path()) + "/" + c.name + ".safetensors";
    std::ofstream(path, std::ios::binary) << as_text(*bytes);
    const std::string text = slurp(path);
    const Result<io::NamedTensors> back = io::decode_safetensors(as_bytes(text));
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_EQ(io::parameters_sha256(*back), io::parameters_sha256(tensors)) << c.name;
  }
}

}  // namespace
}  // namespace trireme::train::testing
