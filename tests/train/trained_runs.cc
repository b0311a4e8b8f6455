#include "tests/train/trained_runs.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "trireme/job/job_parts.h"
#include "trireme/start/in_process.h"

namespace trireme::train::testing {

using runtime::Runtime;
using runtime::Task;

TrainedRuns::TrainedRuns() {
  std::string pattern = ::testing::TempDir() + "trireme-trained-XXXXXX";
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  dir_ = pattern;
}
TrainedRuns::~TrainedRuns() { std::filesystem::remove_all(dir_); }

void TrainedRuns::write(const std::string& name, const std::string& bytes) const {
  std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
  std::ofstream(path(name), std::ios::binary) << bytes;
}

void TrainedRuns::run(const std::function<Task<void>(Runtime&)>& task) {
  runtime::RealOptions real;
  real.compute_threads = 2;
  const auto rt = runtime::make_real_runtime(real);
  rt->run(task(*rt));
}

namespace {

Task<void> load_data(Runtime& rt, const job::Job& job, std::shared_ptr<const data::Dataset>& out) {
  auto data = co_await data::make_dataset(rt, job::data_spec(job, ""));
  EXPECT_TRUE(data.ok()) << data.status().to_string();
  if (data.ok()) out = *data;
}

Task<void> load_into(Runtime& rt, apply::ModelSource source, Result<apply::LoadedModel>& out) {
  out = co_await apply::load_model(rt, std::move(source));
}

}  // namespace

record::Summary TrainedRuns::train(const std::string& name, const job::Job& job) {
  write(name + "/job.toml", job::to_toml(job));
  std::filesystem::create_directories(path(name) + "/checkpoints");
  start::InProcessOptions options;
  options.job = job;
  options.run_dir = path(name);
  run([&](Runtime& rt) { return load_data(rt, job, options.data); });
  if (options.data == nullptr) return {};
  const auto ranks = start::train_in_process(options);
  EXPECT_TRUE(ranks[0].ok()) << ranks[0].status().to_string();
  return ranks[0].ok() ? *ranks[0] : record::Summary();
}

Result<apply::LoadedModel> TrainedRuns::load(apply::ModelSource source) {
  Result<apply::LoadedModel> out = Status(Code::kInternal, "not run");
  run([&](Runtime& rt) { return load_into(rt, std::move(source), out); });
  return out;
}

apply::LoadedModel TrainedRuns::load(const std::string& name) {
  apply::ModelSource source;
  source.path = path(name);
  Result<apply::LoadedModel> out = load(std::move(source));
  EXPECT_TRUE(out.ok()) << out.status().to_string();
  return out.ok() ? std::move(*out) : apply::LoadedModel();
}

job::Job digits_job() {
  job::Job job;
  job.model.name = "lenet";
  job.data.limit_train = 120;
  job.data.limit_test = 70;  // a whole evaluation batch and a short one
  job.train.steps = 6;
  job.train.batch = 40;
  job.train.logical_shards = 4;
  job.train.optimizer.lr = 0.05;
  job.parallel.workers = 2;
  return job;
}

job::Job batch_norm_job() {
  job::Job job = digits_job();
  job.model.layers = {{{"kind", "conv2d"}, {"out", 4}, {"window", 3}},
                      {{"kind", "batch_norm"}, {"activation", "relu"}},
                      {{"kind", "classifier"}}};
  return job;
}

job::Job autoencoder_job() {
  job::Job job = digits_job();
  job.model.name = "autoencoder";
  job.model.options = {{"hidden", 16}};
  job.train.optimizer.kind = "adam";
  job.train.optimizer.lr = 0.003;
  return job;
}

std::string small_text() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += i % 3 == 0 ? "ab ba " : "abab\n";
  return text;
}

job::Job text_job(const std::string& text_path) {
  job::Job job = digits_job();
  job.model.name = "char-lstm";
  job.model.options = {{"layers", 1}, {"width", 12}, {"dropout", 0}};
  job.data = job::Job::Data();
  job.data.kind = "text";
  job.data.path = text_path;
  job.data.options.set("context", 8);
  job.train.optimizer.kind = "adam";
  job.train.optimizer.lr = 0.02;
  return job;
}

}  // namespace trireme::train::testing
