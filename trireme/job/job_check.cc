// What values of a job make sense, as far as one machine without the data can tell.
#include "trireme/base/units.h"
#include "trireme/data/partition.h"
#include "trireme/data/source.h"
#include "trireme/job/job_checker.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/model/describe.h"
#include "trireme/model/optimizer_options.h"

namespace trireme::job {
namespace {

// Earlier versions wrote the default name into job.toml of a run whether or not there were layers.
bool names_model(const Job& job) {
  const auto at = job.given_at.find("model.name");
  if (at == job.given_at.end()) return false;
  return job.model.name != Job().model.name || at->second.find("job.toml:") == std::string::npos;
}

void check_model(JobChecker& c, const Job& job) {
  const Job::Model& m = job.model;
  if (m.layers.empty()) {
    const auto row = model::find_model(m.name);
    c.expect_ok(row.status(), "model.name");
    const auto options = model_options(job);
    c.expect_ok(options.status(), "model.options");
    if (row.ok() && options.ok())
      c.expect_ok(model::complete_options(**row, *options).status(), "model.options");
  } else {
    c.expect_ok(model::describe_model(m.layers, {}).status(), "model.layers");
    c.expect(m.options.empty(), "model.options", "none beside model.layers");
    c.expect(!names_model(job), "model.name", "it not to be set beside model.layers; remove one of the two");
  }
  c.expect_one_of(m.task, "model.task", {"auto", "classify", "reconstruct"});
  c.expect(m.cut_at.empty() || !m.init_from.empty(), "model.cut_at",
           "an empty string without model.init_from");
}

void check_data(JobChecker& c, const Job& job) {
  const Job::Data& d = job.data;
  std::string kinds;
  for (const data::DataKind& kind : data::data_kinds())
    kinds += fmt::format("{}{}", kinds.empty() ? "" : ", ", kind.name);
  const data::DataKind* found = data::find_kind(d.kind);
  c.expect(found != nullptr, "data.kind", "one of: " + kinds);
  c.expect(found == nullptr || !found->needs_path || !d.path.empty(), "data.path",
           fmt::format("a path, for kind '{}'", d.kind));
  c.expect(d.limit_train >= 0, "data.limit_train", "0 or more");
  c.expect(d.limit_test >= 0, "data.limit_test", "0 or more");
  c.expect(in_range(d.test, 0, 0.999), "data.test", "a fraction, at least 0 and below 1");
  c.expect(in_range(d.validation, 0, 0.999), "data.validation", "a fraction, at least 0 and below 1");
  c.expect_ok(data::parse_partition(d.partition).status(), "data.partition");
  c.expect(d.prefetch >= 1 && d.prefetch <= 64, "data.prefetch", "between 1 and 64");
  check_ranges(c, job, OptionsOf::kData);
  if (c.status.ok() && found != nullptr && found->check != nullptr)
    if (const auto fault = found->check(d.options))
      c.expect(false, fmt::format("data.{}", fault->option), fault->expected);
  c.expect(d.augment.shift >= 0 && d.augment.shift <= 1 << 20, "data.augment.shift", "0 or more pixels");
  c.expect(d.augment.crop > 0 && d.augment.crop <= 1, "data.augment.crop", "above 0 and at most 1");
}

void check_train(JobChecker& c, const Job::Train& t) {
  c.expect(t.epochs >= 1 && t.epochs < 1'000'000, "train.epochs", "1 or more");
  c.expect(t.steps >= 0, "train.steps", "0 or more");
  c.expect(t.batch >= 1 && t.batch <= 1 << 20, "train.batch", "between 1 and 1048576");
  c.expect(t.logical_shards >= 0 && t.logical_shards <= 65536, "train.logical_shards", "between 0 and 65536");
  c.expect(t.shard_threads >= 0 && t.shard_threads <= 1024, "train.shard_threads", "between 0 and 1024");
  c.expect(t.checkpoint_steps >= 0, "train.checkpoint_steps", "0 or more");
  c.expect(in_range(t.checkpoint_minutes, 0, 1e6), "train.checkpoint_minutes", "0 or more minutes");
  c.expect(t.eval_steps >= 0, "train.eval_steps", "0 or more");
  c.expect(!t.patience || (*t.patience >= 1 && *t.patience <= 1'000'000), "train.patience",
           "1 or more evaluations");
  c.expect(t.trace_steps >= 0 && t.trace_steps <= 10000, "train.trace_steps", "between 0 and 10000");
  c.expect(in_range(t.target_accuracy, 0, 1), "train.target_accuracy",
           "a fraction between 0 and 1, like 0.99");
  c.expect_one_of(t.nan, "train.nan", {"stop", "skip"});
  c.expect_one_of(t.device, "train.device", {"cpu", "cuda", "auto"});
  const Result<std::uint64_t> limit = parse_bytes(t.memory_limit);
  c.expect(t.memory_limit.empty() || (limit.ok() && *limit > 0 && *limit < std::uint64_t{1} << 60U),
           "train.memory_limit", "a size like 8GiB, or nothing");
  c.expect_one_of(t.precision, "train.precision", {"f32", "tf32", "bf16", "f16"});
  c.expect(t.precision != "tf32" || t.device != "cpu", "train.precision",
           "f32: tf32 is a format of GPUs (train.device)");
}

// What the op of the optimiser says about the attributes: names, ranges, what goes together.
Status ask_op(const model::OptimizerRow& row, const model::OptimizerSpec& spec) {
  const model::Parameter p{"w", {DType::kF32, {1}}};
  TR_ASSIGN_OR_RETURN(const auto states, model::optimizer_states(spec, {&p, 1}));
  std::vector<TensorType> in{p.type};
  for (const model::StateVariable& s : states) in.push_back(s.type);
  in.push_back(p.type);
  in.push_back({DType::kF32, {}});
  if (row.counts_steps) in.push_back({DType::kI64, {}});
  op::Attrs attrs = spec.attrs;
  if (row.fixed != nullptr) attrs.set(row.fixed, true);
  return op::infer_types(*row.op, in, attrs).status();
}

// Each option by itself, so that the message is about its key, then all together.
void check_optimizer_options(JobChecker& c, const Job& job, const model::OptimizerRow& row) {
  check_ranges(c, job, OptionsOf::kOptimizer);
  const std::string known = names_of(row.options);
  for_given_options(
      job, OptionsOf::kOptimizer, [&](const JobKey& key, const OptionField& field, const OptionValue& value) {
        const std::string_view name = field.spec->name;
        // 0 is what every optimizer does, and jobs that change the kind may keep it.
        if (name == model::kFixedAfter.name && value == OptionValue(std::int64_t{0})) return;
        c.expect(
            find_option(row.options, name) != nullptr, key.path,
            fmt::format("it not to be set: '{}' has only {}; it is for {}", row.name, known, field.rows));
        if (row.fixed != nullptr && name == row.fixed)
          c.expect(value == OptionValue(true), key.path, "true, or another kind");
      });
  if (!c.status.ok()) return;
  const model::OptimizerSpec all = optimizer_spec(job);
  c.expect_ok(ask_op(row, all), "train.optimizer.kind");
  const bool has_velocity = std::ranges::any_of(
      row.states, [](const model::StateRow& s) { return std::string_view(s.name) == "velocity"; });
  c.expect(!all.correct_momentum || has_velocity, "train.optimizer.correct_momentum",
           fmt::format("false: '{}' keeps no velocity", row.name));
}

void check_schedule_keys(JobChecker& c, const Job::Optimizer& o) {
  std::string names;
  bool known = false;
  for (const model::ScheduleRow& row : model::schedule_table()) {
    known = known || o.schedule == row.name;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  c.expect(known, "train.optimizer.schedule", "one of: " + names);
  c.expect(o.warmup >= 0 && o.warmup < 1, "train.optimizer.warmup", "a fraction, at least 0 and below 1");
  c.expect(in_range(o.warmup_start, 0, 1), "train.optimizer.warmup_start", "a fraction between 0 and 1");
  c.expect(in_range(o.final_share, 0, 1), "train.optimizer.final_share", "a fraction between 0 and 1");
  c.expect(o.factor > 0 && o.factor <= 1, "train.optimizer.factor", "above 0 and at most 1");
  c.expect(in_range(o.power, 1e-9, 1e6), "train.optimizer.power", "above 0");
  c.expect(in_range(o.start_divisor, 1, 1e9), "train.optimizer.start_divisor", "1 or more");
  c.expect(o.schedule == "step" || o.milestones.empty(), "train.optimizer.milestones",
           fmt::format("none with schedule '{}'; set train.optimizer.schedule = \"step\"", o.schedule));
  c.expect(o.schedule != "step" || !o.milestones.empty(), "train.optimizer.milestones",
           "some for schedule 'step', like [0.5, 0.75]");
  const auto bad = std::ranges::adjacent_find(o.milestones, [](double a, double b) { return !(a < b); });
  const bool inside = std::ranges::all_of(o.milestones, [](double m) { return m > 0 && m < 1; });
  c.expect(inside && bad == o.milestones.end(), "train.optimizer.milestones",
           "ascending fractions of the run, above 0 and below 1");
  c.expect(o.reference_batch >= 0, "train.optimizer.reference_batch", "0 or more");
  c.expect(o.max_batch_multiplier >= 1 && o.max_batch_multiplier <= 1 << 20,
           "train.optimizer.max_batch_multiplier", "between 1 and 1048576");
}

void check_optimizer(JobChecker& c, const Job& job) {
  const Job::Optimizer& o = job.train.optimizer;
  const auto row = model::find_optimizer(o.kind);
  c.expect_ok(row.status(), "train.optimizer.kind");
  c.expect(!o.lr || (*o.lr > 0 && *o.lr < 1e6), "train.optimizer.lr",
           "a learning rate above 0 and below 1000000");
  c.expect(in_range(o.clip_norm, 0, 1e30), "train.optimizer.clip_norm", "0 or more");
  if (row.ok()) check_optimizer_options(c, job, **row);
  check_schedule_keys(c, o);
  c.expect_ok(model::check_schedule(schedule_of(job)), "train.optimizer.schedule");
}

Status check_counts(const Job& job) {
  const Roles roles = roles_of(job);
  const std::int64_t replicas = roles.num_replicas();
  const std::int64_t shards = shards_of(job);
  if (replicas > shards && roles.workers > replicas)
    return error(Code::kInvalid,
                 "[job] the {} replicas of parallel.mesh cannot share {} logical shards: use data={} or set "
                 "train.logical_shards={}",
                 replicas, shards, shards, replicas);
  if (replicas > shards)
    return error(
        Code::kInvalid,
        "[job] {} workers cannot share {} logical shards: use --workers {} or set train.logical_shards={}",
        replicas, shards, shards, replicas);
  if (job.train.batch < shards)
    return error(
        Code::kInvalid,
        "[job] a batch of {} samples cannot be cut into {} logical shards: set train.batch to {} or more",
        job.train.batch, shards, shards);
  return {};
}

}  // namespace

Status check_job(const Job& job) {
  JobChecker c(job);
  const bool plain_name = !job.name.empty() && job.name.find_first_of("/\\ \n\t") == std::string::npos;
  c.expect(plain_name, "name", "a word without slashes or blanks");
  check_ranges(c, job, OptionsOf::kJob);
  check_model(c, job);
  check_data(c, job);
  check_train(c, job.train);
  if (c.status.ok()) check_optimizer(c, job);
  check_parallel(c, job);
  return c.status.ok() ? check_counts(job) : c.status;
}

}  // namespace trireme::job
