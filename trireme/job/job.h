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
#include "trireme/base/option_spec.h"
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
    OptionValues options;  // those that the kind's row lists count; others are kept as given
    Augment augment;
  } data;
  struct Optimizer {
    std::string kind = "momentum";
    std::optional<double> lr;  // not set: as the kind's row has it
    OptionValues options;      // of the kind's row, by the names there: "momentum"
    std::vector<std::string> no_decay = {"bias", "scale", "bias_ih", "bias_hh"};
    double clip_norm = 0;
    bool correct_momentum = false;
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
    std::optional<std::int64_t> logical_tiles;  // default: the size of the mesh's model axis
    double target_accuracy = 0;
    std::string nan = "stop";
    std::string device = "cpu";
    std::string precision = "f32";
    std::string memory_limit;  // a size; empty: none
    Optimizer optimizer;
  } train;
  struct Parallel {
    std::int64_t workers = 1, servers = -1;  // -1: as many as the agreement needs
    std::string mesh;                        // of the workers: "data=2,model=2"; empty: data=workers
    std::optional<std::vector<std::string>> stage_cuts;  // layers that begin segments: "block4"
    std::optional<std::vector<std::string>> layouts;     // pins: "fc*/weight: model=0"
    std::string agreement = "bsp";
    OptionValues agreement_options;  // of the agreement's row, by the names there: "period"
    std::string codec = "none";
    OptionValues codec_options;  // of codecs and of every link with one: "bits"; the keys are codec_<name>
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
  OptionValues options;  // keys that are no fields (job_options.h), by their whole paths: "train.events"

  // Where keys were given, for messages: "job.toml:3:9". Not part of what is asked for.
  std::map<std::string, std::string, std::less<>> given_at;
  // Keys that the data decided (settle_job.h). Not part of what is asked for.
  std::vector<std::string> picked;
};

// Which options a job holds (base/option_spec.h): of rows, or its own.
enum class OptionsOf : std::uint8_t { kAgreement, kCodec, kData, kOptimizer, kJob };
OptionValues& options_of(Job& job, OptionsOf family);
const OptionValues& options_of(const Job& job, OptionsOf family);

// A key that is an option. The spec of an option of rows is that of one of them: others may have another
// default.
struct OptionField {
  OptionsOf family = OptionsOf::kAgreement;
  const OptionSpec* spec = nullptr;
  std::string_view rows = {};   // that have it: "topk, randomk, threshold"; empty: all of the family
  bool writes_default = false;  // a job that does not say it has the default in its file and its hash
};

// One key of a job file.
struct JobKey {
  using Field = std::variant<std::int64_t* (*)(Job&), double* (*)(Job&), std::string* (*)(Job&),
                             bool* (*)(Job&), std::optional<double>* (*)(Job&),
                             std::vector<double>* (*)(Job&), std::vector<std::string>* (*)(Job&),
                             Json* (*)(Job&), std::optional<std::int64_t>* (*)(Job&),
                             std::optional<std::vector<std::string>>* (*)(Job&), OptionField>;
  std::string_view path;
  std::string_view doc;
  Field field;
  bool decides_result;  // false: may differ when a run is resumed (workers, transport...)
  // Not empty: its name in older files, which still work; hashes of jobs are made with it.
  std::string_view old_path = {};
};
// The keys that are fields of the job (job_keys.cc) with the options at their places (option_keys.cc). Hashes
// of jobs are made in this order.
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
