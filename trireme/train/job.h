// Job: what the user asks for. A TOML file, `--set key=value` on top, or a C++ value. Keys live in one table
// (job_keys.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::train {

struct Job {
  std::string name = "digits";
  struct Model {
    std::string name = "lenet";
  } model;
  struct Data {
    std::string kind = "digits";
    std::string path;
    std::int64_t seed = 2024;
    std::int64_t limit_train = 0, limit_test = 0;
    double test = 0.1;
    std::string shape, label;
    std::string header = "auto", separator = ",";
    std::int64_t classes = 10, num_train = 10000, num_test = 1000;
  } data;
  struct Optimizer {
    std::string kind = "momentum";
    double lr = 0.1;
    double momentum = 0.9;
    double weight_decay = 1e-4;
    bool nesterov = false;
    std::string schedule = "cosine";
    double warmup = 0.05;
  };
  struct Train {
    std::int64_t epochs = 4;
    std::int64_t steps = 0;
    std::int64_t batch = 128;
    std::int64_t seed = 1;
    std::int64_t logical_shards = 0;
    std::int64_t shard_threads = 0;
    std::int64_t checkpoint_steps = 0;
    Optimizer optimizer;
  } train;
  struct Parallel {
    std::int64_t workers = 1;
    std::string agreement = "bsp";
    std::string codec = "none";
    std::string transport = "auto";
    std::string collective = "fixed-tree";
    std::int64_t bucket_bytes = 1 << 20;
    std::int64_t deadline_ms = 2000;
  } parallel;
};

// One key of a job file.
struct JobKey {
  using Field =
      std::variant<std::int64_t* (*)(Job&), double* (*)(Job&), std::string* (*)(Job&), bool* (*)(Job&)>;
  std::string_view path;
  std::string_view doc;
  Field field;
  bool decides_result;  // false: may differ when a run is resumed (workers, transport...)
};
std::span<const JobKey> job_keys();

// Reads TOML text; `source` names it in errors: "job.toml:3:9: ...". Unknown keys are refused with the
// nearest known one.
Result<Job> parse_job(std::string_view toml, std::string_view source);
// Applies "train.epochs=5".
Status set_job_key(Job& job, std::string_view assignment);
// Every rule that needs no other machine: ranges, names, counts that fit together. Says what to change.
Status check_job(const Job& job);

// The whole job as TOML, every key, in the order of the table.
std::string to_toml(const Job& job);
// Lines "key: a -> b" for keys that decide the result and differ.
std::string diff_jobs(const Job& before, const Job& after);
// Hash of the keys that decide the result.
std::string job_sha256(const Job& job);

}  // namespace trireme::train
