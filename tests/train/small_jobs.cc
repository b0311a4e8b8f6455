#include "tests/train/small_jobs.h"

#include <gtest/gtest.h>

namespace trireme::train::testing {
namespace {

runtime::Task<void> load(runtime::Runtime& rt, data::DigitsOptions options,
                         std::shared_ptr<const data::Dataset>* out) {
  auto loaded = co_await data::load_digits(rt, options);
  EXPECT_TRUE(loaded.ok());
  if (loaded.ok()) *out = *loaded;
}

std::string common_hash(const std::vector<Result<record::Summary>>& ranks) {
  std::string hash;
  for (const auto& rank : ranks) {
    EXPECT_TRUE(rank.ok()) << rank.status().to_string();
    if (!rank.ok()) return "";
    if (hash.empty()) hash = rank->parameters_sha256;
    EXPECT_EQ(rank->parameters_sha256, hash) << "ranks of one run differ";
  }
  return hash;
}

}  // namespace

std::shared_ptr<const data::Dataset> few_digits(std::int64_t num_train, std::int64_t num_test) {
  std::shared_ptr<const data::Dataset> set;
  data::DigitsOptions options;
  options.limit_train = num_train;
  options.limit_test = num_test;
  runtime::RealOptions real;
  real.compute_threads = 1;
  const auto rt = runtime::make_real_runtime(real);
  rt->run(load(*rt, options, &set));
  return set;
}

job::Job small_job(std::string model, std::int64_t steps, int workers) {
  job::Job job;
  job.model.name = std::move(model);
  job.train.steps = steps;
  job.train.batch = 30;
  job.train.logical_shards = 6;
  job.train.optimizer.lr = 0.05;
  job.parallel.workers = workers;
  job.parallel.bucket_bytes = 1 << 20;  // one bucket: tests count collective calls
  return job;
}

std::string hash_in_process(const job::Job& job, std::shared_ptr<const data::Dataset> data,
                            const std::string& run_dir) {
  start::InProcessOptions options;
  options.job = job;
  options.data = std::move(data);
  options.run_dir = run_dir;
  return common_hash(start::train_in_process(options));
}

std::string hash_virtual(const job::Job& job, std::shared_ptr<const data::Dataset> data, std::uint64_t seed) {
  start::SimulateOptions options;
  options.job = job;
  options.seed = seed;
  options.latency_jitter = seed == 1 ? 0 : 0.9;
  return common_hash(start::simulate_training(options, std::move(data)).ranks);
}

}  // namespace trireme::train::testing
