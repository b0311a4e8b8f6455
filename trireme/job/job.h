// Job: what the user asks for. A TOML file, `--set key=value` on top, or a C++ value. Keys live in one table
// (job_keys.cc).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/base/status.h"

namespace trireme::job {

struct Job {
  std::string name = "digits";
  struct Model {
    std::string name = "lenet";
    std::string task = "auto";
    Json options = Json::object();
    Json layers = Json::array();
    std::string init_from, cut_at;
    std::vector<std::string> freeze;
  } model;
  struct Augment {
    std::int64_t shift = 0;
    double crop = 1;
    bool flip = false;
  };
  struct Data {
    std::string kind = "digits";
    std::string path;
    std::int64_t seed = 2024;
    std::int64_t limit_train = 0, limit_test = 0;
    double test = 0.1, validation = 0;
    std::string partition = "random";
    std::int64_t prefetch = 2;
    std::string shape, label;
    std::string header = "auto", separator = ",";
    std::optional<std::string> pixels;
    std::string tokens = "chars";
    std::int64_t context = 128, stride = 0;
    std::int64_t classes = 10, num_train = 10000, num_test = 1000;
    Augment augment;
  } data;
  // Not set: as the kind of optimiser has it (PyTorch's defaults).
  struct Optimizer {
    std::string kind = "momentum";
    std::optional<double> lr;
    std::optional<double> momentum, dampening, beta1, beta2, eps, alpha, trust, lr_decay, initial_sum;
    std::optional<double> weight_decay;
    std::optional<bool> nesterov, rate_inside, eps_inside, eps_hat, amsgrad, centered, bias_correction,
        decay_by_lr;
    std::vector<std::string> no_decay = {"bias", "scale", "bias_ih", "bias_hh"};
    double clip_norm = 0;
    bool correct_momentum = false;
    std::optional<std::int64_t> fixed_after;
    std::string schedule = "cosine";
    double warmup = 0.05, warmup_start = 0.05;
    double final_share = 0, factor = 0.1, power = 1, start_divisor = 25;
    std::vector<double> milestones;
    std::int64_t reference_batch = 0, max_batch_multiplier = 1;
  };
  struct Train {
    std::int64_t epochs = 4;
    std::int64_t steps = 0;
    std::int64_t batch = 128;
    std::int64_t seed = 1;
    std::int64_t logical_shards = 0;
    std::int64_t shard_threads = 0;
    std::int64_t checkpoint_steps = 0, eval_steps = 0, trace_steps = 0;
    double checkpoint_minutes = 0;
    bool keep_best = true;
    std::optional<std::int64_t> patience;
    bool events = true;
    double target_accuracy = 0;
    std::string nan = "stop";
    std::string device = "cpu";
    std::string precision = "f32";
    std::string memory_limit;  // a size; empty: none
    Optimizer optimizer;
  } train;
  struct Parallel {
    std::int64_t workers = 1, servers = -1;  // -1: as many as the agreement needs
    std::string colocate = "auto";
    std::string agreement = "bsp";
    // Not set: as agree::RuleOptions has it.
    std::optional<std::int64_t> period, staleness, fetch_steps, push_steps, in_flight, warm_start_steps,
        local_replicas, gather;
    std::optional<double> elasticity, fraction, outer_lr, outer_momentum, proximity;
    std::optional<std::string> outer, neighbours;
    std::optional<bool> locked;
    std::string codec = "none";
    // Not set: as codec::Options and codec::Coding have it.
    std::optional<double> codec_fraction, codec_tau, codec_clip, codec_momentum;
    std::optional<std::int64_t> codec_bits, codec_rank, codec_least, codec_dense_steps, codec_warmup_steps;
    std::optional<bool> codec_feedback, codec_pull;
    std::string reducer = "auto";
    std::string codec_tolerance = "rounding";
    std::string transport = "auto";
    std::string collective = "fixed-tree";
    std::int64_t bucket_bytes = 0;
    std::string overlap = "full";
    std::int64_t deadline_ms = 2000;
    std::int64_t check_steps = 0;
    std::string link;  // between hosts: "1gbit,50us"; empty: as calibrated, or assumed
    std::string weights = "auto";
    std::string device_collectives = "auto";
  } parallel;

  // Where keys were given, for messages: "job.toml:3:9". Not part of what is asked for.
  std::map<std::string, std::string, std::less<>> given_at;
  // Keys that the data decided (settle_job.h). Not part of what is asked for.
  std::vector<std::string> picked;
};

// One key of a job file.
struct JobKey {
  using Field =
      std::variant<std::int64_t* (*)(Job&), double* (*)(Job&), std::string* (*)(Job&), bool* (*)(Job&),
                   std::optional<double>* (*)(Job&), std::optional<bool>* (*)(Job&),
                   std::vector<double>* (*)(Job&), std::vector<std::string>* (*)(Job&), Json* (*)(Job&),
                   std::optional<std::int64_t>* (*)(Job&), std::optional<std::string>* (*)(Job&)>;
  std::string_view path;
  std::string_view doc;
  Field field;
  bool decides_result;  // false: may differ when a run is resumed (workers, transport...)
  // Not empty: its name in older files, which still work; hashes of jobs are made with it.
  std::string_view old_path = {};
};
std::span<const JobKey> job_keys();

// Reads TOML text; `source` names it in errors: "job.toml:3:9: ...". Unknown keys are refused with the
// nearest known one.
Result<Job> parse_job(std::string_view toml, std::string_view source);
// Applies "train.epochs=5". Lists are "0.5,0.75" or as in TOML; tables as in TOML.
Status set_job_key(Job& job, std::string_view assignment);
// The value of a key as TOML; empty: not set.
std::string value_text(const Job& job, const JobKey& key);
// Every rule that needs no other machine: ranges, names, counts that fit together. Says what to change.
Status check_job(const Job& job);

// What kind of value a key takes: "an integer".
std::string_view value_kind(const JobKey& key);
// The whole job as TOML, every key that has a value and is not in `without`, in the order of the table.
std::string to_toml(const Job& job, std::span<const std::string_view> without = {});
// Lines "key: a -> b" for keys that decide the result and differ.
std::string diff_jobs(const Job& before, const Job& after);
// Hash of the keys that decide the result.
std::string job_sha256(const Job& job);

}  // namespace trireme::job
