#include "trireme/job/job_parts.h"

#include "trireme/agree/agree.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"
#include "trireme/model/describe.h"
#include "trireme/model/fine_tune.h"
#include "trireme/model/optimizer_options.h"

namespace trireme::job {

using model::ModelTask;

data::DataSpec data_spec(const Job& job, std::string cache_dir) {
  const Job::Data& d = job.data;
  data::DataSpec spec;
  spec.kind = d.kind;
  spec.path = d.path;
  spec.seed = static_cast<std::uint64_t>(d.seed);
  spec.limit_train = d.limit_train;
  spec.limit_test = d.limit_test;
  spec.test = d.test;
  spec.validation = d.validation;
  spec.labels = task_of(job) != ModelTask::kReconstruct;
  spec.augment.shift = static_cast<int>(d.augment.shift);
  spec.augment.crop = d.augment.crop;
  spec.augment.flip = d.augment.flip;
  spec.options = d.options;
  spec.cache_dir = std::move(cache_dir);
  return spec;
}

data::SampleForm sample_form(const Job& job) {
  const data::DataKind* kind = data::find_kind(job.data.kind);
  return kind == nullptr ? data::SampleForm::kImage : kind->form;
}

Result<model::ModelOptions> model_options(const Job& job) {
  model::ModelOptions options;
  for (const auto& [name, value] : job.model.options.items()) {
    if (!value.is_number())
      return error(Code::kInvalid, "[job] model.options: '{}' is {}, expected a number", name, value.dump());
    options.items.emplace_back(name, value.get<double>());
  }
  return options;
}

ModelTask task_of(const Job& job) {
  if (job.model.task == "reconstruct") return ModelTask::kReconstruct;
  if (sample_form(job) == data::SampleForm::kTokens) return ModelTask::kLanguage;
  if (job.model.task == "auto" && job.model.layers.empty())
    if (const auto row = model::find_model(job.model.name); row.ok())
      if (const ModelTask task = (*row)->input().task; task == ModelTask::kReconstruct) return task;
  return ModelTask::kClassify;
}

Result<model::ModelInput> model_input(const Job& job, const data::Dataset& data) {
  const ModelTask task = task_of(job);
  if (task == ModelTask::kClassify && data.label_kind != data::Labels::kClass)
    return error(Code::kInvalid,
                 "[data] {}: a classifier needs labels and there are none; try model.task = \"reconstruct\"",
                 data.source);
  return model::ModelInput{data.sample_shape, data.num_classes, task};
}

Result<model::ModelGraphs> build_job_model(const Job& job, const model::ModelInput& input,
                                           std::int64_t shard_batch) {
  model::GraphOptions options;
  if (job.train.precision == "bf16") options.products = DType::kBF16;
  if (job.train.precision == "f16") options.products = DType::kF16, options.scale_loss = true;
  model::ModelGraphs graphs;
  if (job.model.layers.empty()) {
    TR_ASSIGN_OR_RETURN(const model::ModelOptions given, model_options(job));
    TR_ASSIGN_OR_RETURN(graphs, model::build_model(job.model.name, input, shard_batch, given, options));
  } else {
    TR_ASSIGN_OR_RETURN(const model::ModelFn build, model::describe_model(job.model.layers, input));
    TR_ASSIGN_OR_RETURN(graphs, model::build_graphs(build, input, shard_batch, options));
  }
  if (job.model.freeze.empty()) return graphs;
  Result<model::ModelGraphs> frozen = model::freeze(std::move(graphs), job.model.freeze);
  if (!frozen.ok()) return frozen.status().with_prefix("[job] model.freeze: ");
  return frozen;
}

double peak_rate(const Job::Optimizer& o) {
  const auto row = model::find_optimizer(o.kind);
  return o.lr.value_or(row.ok() ? (*row)->lr : model::OptimizerRow().lr);
}

namespace {

bool in_lock_step(const Job& job) {
  const auto rule = agree::find_agreement(job.parallel.agreement);
  return rule.ok() && (*rule)->pace == agree::Pace::kStep;
}

bool has_momentum(const Job::Optimizer& o) { return o.kind == "momentum" || o.kind == "nesterov"; }

// Options that OptimizerSpec has as fields; the others are attributes of the op.
constexpr std::string_view kOfStates[] = {model::kInitialSum.name, model::kFixedAfter.name};

void set_attr(op::Attrs& attrs, const OptionSpec& option, const OptionValues& given) {
  if (std::holds_alternative<bool>(option.default_value))
    attrs.set(option.name, given.flag(option));
  else
    attrs.set(option.name, given.number(option));
}

// What the codec and the optimizer ask for in lock step.
CodedStart safe_start(const Job::Optimizer& o, const codec::SafeStart& safe) {
  CodedStart start;
  start.dense_steps = safe.dense_steps;
  start.warmup_steps = safe.warmup_steps;
  const bool no_decay = o.options.number(model::kWeightDecay) == 0;
  if (safe.steps_before_momentum > 0 && o.kind == "momentum" && !o.options.flag(model::kNesterov)) {
    start.dense_steps = safe.steps_before_momentum;
    // Decay is part of the optimizer's momentum, and would be lost.
    if (no_decay) start.momentum = o.options.number(model::kMomentum);
  }
  // 1-bit Adam, where it is asked for.
  const std::int64_t fixed_after = o.options.integer(model::kFixedAfter);
  if ((o.kind == "adam" || o.kind == "adamw") && fixed_after > 0) {
    start.dense_steps = fixed_after;
    if (o.kind == "adamw" || no_decay) start.momentum = o.options.number(model::kBeta1);
  }
  return start;
}

}  // namespace

bool uses_old_updates(const Job& job) {
  const Job::Parallel& p = job.parallel;
  if (overlaps_steps(job)) return true;
  const auto row = agree::find_agreement(p.agreement);
  if (!row.ok() || roles_of(job).num_replicas() == 1 || (*row)->applies_old_updates == nullptr) return false;
  return (*row)->applies_old_updates(p.agreement_options);
}

double momentum_of(const Job& job) {
  const Job::Optimizer& o = job.train.optimizer;
  if (!has_momentum(o)) return 0;
  return o.options.number(uses_old_updates(job) ? model::kMomentum.with_default(0.0) : model::kMomentum);
}

model::OptimizerSpec optimizer_spec(const Job& job) { return optimizer_spec(job, sending_of(job)); }

model::OptimizerSpec optimizer_spec(const Job& job, const Sending& sending) {
  const Job::Optimizer& o = job.train.optimizer;
  model::OptimizerSpec spec{.kind = o.kind, .no_decay = o.no_decay};
  const auto row = model::find_optimizer(o.kind);
  for (const OptionSpec& option : row.ok() ? (*row)->options : std::span<const OptionSpec>())
    if (o.options.has(option.name) && option.name != kOfStates[0] && option.name != kOfStates[1])
      set_attr(spec.attrs, option, o.options);
  if (has_momentum(o) && !o.options.has(model::kMomentum.name) && uses_old_updates(job))
    spec.attrs.set(model::kMomentum.name, 0.0);
  spec.initial_sum = o.options.number(model::kInitialSum);
  spec.clip_norm = o.clip_norm;
  spec.correct_momentum = o.correct_momentum;
  const codec::Coding coding = coding_of(job, sending);
  spec.others_momentum = encoders_make_momentum(job, sending);
  spec.fixed_after = o.options.integer(model::kFixedAfter);
  if (spec.others_momentum || spec.fixed_after > 0)
    spec.coded_elems = sending.is(Sending::Kind::kDense) ? 1 : coding.least_elems;
  return spec;
}

model::Schedule schedule_of(const Job& job) {
  const Job::Optimizer& o = job.train.optimizer;
  model::Schedule s;
  s.kind = o.schedule;
  s.lr = peak_rate(o);
  s.warmup = o.warmup;
  s.warmup_start = o.warmup_start;
  s.final_share = o.final_share;
  s.factor = o.factor;
  s.power = o.power;
  s.start_divisor = o.start_divisor;
  s.milestones = o.milestones;
  s.batch = job.train.batch;
  s.reference_batch = o.reference_batch;
  s.max_batch_multiplier = o.max_batch_multiplier;
  return s;
}

agree::RuleOptions rule_options(const Job& job) { return rule_options(job, sending_of(job)); }

agree::RuleOptions rule_options(const Job& job, const Sending& sending) {
  const Job::Parallel& p = job.parallel;
  agree::RuleOptions o;
  o.own = p.agreement_options;
  o.own_samples = job.data.partition != "random";
  o.coding = coding_of(job, sending);
  o.codec_pull = p.codec_options.flag(codec::kPull);
  return o;
}

LowRankOptions low_rank_options(const Job& job) {
  const OptionValues& given = job.parallel.codec_options;
  LowRankOptions o;
  o.rank = given.integer(kRank);
  o.feedback = given.flag(codec::kFeedback);
  o.least_elems = given.integer(codec::kLeast);
  o.dense_steps = given.integer(codec::kDenseSteps);
  return o;
}

std::vector<Sending> allowed_sendings(const Job& job) {
  const std::string& tolerance = job.parallel.codec_tolerance;
  std::vector<Sending> all{{Sending::Kind::kDense}};
  const auto add = [&](std::initializer_list<const char*> codecs) {
    for (const char* name : codecs) all.push_back(*parse_sending(name));
  };
  if (can_send_factors(job).ok()) all.push_back({Sending::Kind::kFactors});
  // With logical shards the weights depend on the job alone, not on the links and workers that a choice looks
  // at.
  if (tolerance == "exact" || job.train.logical_shards > 0) return all;
  add({"fp16", "bf16"});
  if (tolerance == "rounding") return all;
  // What servers send is kept, so what is right on average only has no place there.
  if (!job.parallel.codec_options.flag(codec::kPull)) add({"qsgd"});
  add({"1bit", "threshold", "topk"});
  if (in_lock_step(job)) all.push_back({Sending::Kind::kLowRank});
  return all;
}

CodedStart coded_start(const Job& job, const Sending& sending) {
  const OptionValues& given = job.parallel.codec_options;
  CodedStart start;
  if (sending.codec != nullptr && sending.codec->needs_feedback && given.flag(codec::kFeedback) &&
      in_lock_step(job))
    start = safe_start(job.train.optimizer, sending.codec->safe_start);
  start.dense_steps = given.integer(codec::kDenseSteps.with_default(start.dense_steps));
  start.warmup_steps = given.integer(codec::kWarmupSteps.with_default(start.warmup_steps));
  start.momentum = given.number(codec::kMomentum.with_default(start.momentum));
  return start;
}

codec::Coding coding_of(const Job& job) { return coding_of(job, sending_of(job)); }

codec::Coding coding_of(const Job& job, const Sending& sending) {
  const Job::Parallel& p = job.parallel;
  codec::Coding c;
  if (sending.codec == nullptr) return c;
  c.row = sending.codec;
  c.options = p.codec_options;
  c.feedback = p.codec_options.flag(codec::kFeedback.with_default(c.row->needs_feedback));
  c.least_elems = p.codec_options.integer(codec::kLeast);
  const CodedStart start = coded_start(job, sending);
  c.dense_steps = start.dense_steps;
  c.warmup_steps = start.warmup_steps;
  c.momentum = start.momentum;
  return c;
}

bool encoders_make_momentum(const Job& job, const Sending& sending) {
  return coding_of(job, sending).momentum > 0 && job.train.optimizer.kind != "sgd";
}

bool waits_for_all(const Job& job) {
  return job.train.optimizer.clip_norm > 0 || job.train.nan == "skip" || job.train.precision == "f16";
}

Status can_share_weights(const Job& job, const Sending& sending, const std::string& transport, int replicas) {
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* rule, agree::find_agreement(job.parallel.agreement));
  TR_ASSIGN_OR_RETURN(const model::OptimizerRow* optimizer, model::find_optimizer(job.train.optimizer.kind));
  const auto no = [](const std::string& why) {
    return error(Code::kInvalid, "[job] parallel.weights = \"shared\": {}; use auto", why);
  };
  if (rule->pace != agree::Pace::kStep || !rule->updates_here)
    return no(fmt::format("replicas have weights of their own under agreement '{}'", rule->name));
  if (replicas < 2)
    return no(tiles_of(job) > 1 ? "one replica has nobody to share with"
                                : "one worker has nobody to share with");
  if (job.options.integer(kZero) > 0) return no("workers divide state among themselves (parallel.zero)");
  if (!sending.is(Sending::Kind::kDense)) return no("every worker decodes whole gradients (parallel.codec)");
  if (transport != "shm") return no(fmt::format("workers share no memory over '{}'", transport));
  if (optimizer->whole_tensors)
    return no(fmt::format("'{}' looks at whole tensors, not at parts of them", optimizer->name));
  return {};
}

Status can_send_factors(const Job& job) {
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* rule, agree::find_agreement(job.parallel.agreement));
  const auto no = [](const std::string& why) {
    return error(Code::kInvalid, "[job] parallel.codec = \"factors\": {}", why);
  };
  if (rule->updates_here && rule->pace != agree::Pace::kStep)
    return no(
        fmt::format("they are of a gradient, and agreement '{}' sends none ({}); use parallel.agreement = "
                    "\"bsp\" or a rule whose servers run the optimizer, such as bsp-server",
                    rule->name, rule->shares_weights ? "it shares weights" : "what travels are weights"));
  const OptionValues& given = job.parallel.agreement_options;
  if (given.integer(agree::kPushSteps) > 1 || given.integer(agree::kFetchSteps) > 1 ||
      given.integer(agree::kInFlight) > 1 || given.integer(agree::kLocalReplicas) > 1)
    return no(
        "the worker's own steps and sums over steps need the gradient itself; use parallel.push_steps = 1, "
        "fetch_steps = 1, in_flight = 1 and local_replicas = 1");
  if (tiles_of(job) > 1)
    return no(
        "a tile has a piece of a layer, and factors are of whole ones; use powersgd, auto or a codec of "
        "single values where the model is cut over workers");
  if (segments_of(job) > 1)
    return no(
        "gradients of micro-batches are added while the pipeline runs, and factors of several batches "
        "cannot be; use powersgd, auto or a codec of single values where the model is cut into segments");
  if (job.train.optimizer.max_batch_multiplier > 1)
    return no("factors of several batches cannot be added up; use train.optimizer.max_batch_multiplier = 1");
  if (job.train.precision != "f32")
    return no(
        fmt::format("matmuls in {} round their results; use train.precision = \"f32\"", job.train.precision));
  return {};
}

}  // namespace trireme::job
