// What of [parallel] makes sense, and what an agreement cannot do with the rest of the job.
#include <span>

#include "trireme/agree/agree.h"
#include "trireme/collective/schedule.h"
#include "trireme/cost/rates.h"
#include "trireme/job/job_checker.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/model/optimizer_options.h"
#include "trireme/parallel/pipeline/timetable.h"
#include "trireme/parallel/shard/style.h"
#include "trireme/plan/step_model.h"

namespace trireme::job {
namespace {

constexpr std::string_view kPrefix = "parallel.";
constexpr std::int64_t kMostRanks = 65536;

std::string key_of(std::string_view name) { return fmt::format("{}{}", kPrefix, name); }

// The end of what is refused where a replica is several ranks.
std::string why_cut(const Job& job) {
  return job.train.logical_tiles
             ? fmt::format(" where train.logical_tiles = {} cuts the model", *job.train.logical_tiles)
             : fmt::format(" where parallel.mesh = \"{}\" cuts the model over workers", job.parallel.mesh);
}

void check_rule_options(JobChecker& c, const Job& job, const agree::AgreementRow& row) {
  const std::string known = names_of(row.options);
  for_given_options(job, OptionsOf::kAgreement,
                    [&](const JobKey& key, const OptionField& field, const auto&) {
                      const std::string_view hint = field.spec->hint;
                      c.expect(find_option(row.options, field.spec->name) != nullptr, key.path,
                               fmt::format("it not to be set: agreement '{}' has {}{}{}{}", row.name,
                                           known.empty() ? "no keys of its own" : "only ", known,
                                           hint.empty() ? "" : "; ", hint));
                    });
  if (!c.status.ok()) return;
  for_given_options(job, OptionsOf::kAgreement,
                    [&](const JobKey& key, const OptionField& field, const OptionValue& value) {
                      const OptionRange& range = find_option(row.options, field.spec->name)->range;
                      c.expect(range.holds(value), key.path, range.text());
                    });
  const OptionValues& options = job.parallel.agreement_options;
  if (c.status.ok() && row.check != nullptr)
    if (const auto fault = row.check(options, roles_of(job).num_replicas()))
      c.expect(false, key_of(fault->option), fault->expected);
  if (c.status.ok() && row.check_cut != nullptr && tiles_of(job) > 1)
    if (const auto fault = row.check_cut(options))
      c.expect(false, key_of(fault->option), fault->expected + why_cut(job));
}

void check_servers(JobChecker& c, const Job::Parallel& p, const agree::AgreementRow& row) {
  c.expect(p.servers >= -1 && p.servers <= kMostRanks, "parallel.servers", "between -1 and 65536");
  c.expect(!row.needs_server || p.servers != 0, "parallel.servers",
           fmt::format("1 or more, or -1 for one: agreement '{}' keeps the model on servers", row.name));
  c.expect(row.needs_server || p.servers <= 0, "parallel.servers",
           fmt::format("0: agreement '{}' uses no servers", row.name));
  c.expect(p.workers + std::max<std::int64_t>(0, p.servers) <= kMostRanks, "parallel.servers",
           fmt::format("at most {} beside {} workers", kMostRanks - p.workers, p.workers));
}

// What only a step that all take together, or an optimiser on the worker, can do.
void check_rest(JobChecker& c, const Job& job, const agree::AgreementRow& row) {
  const Job::Train& t = job.train;
  const Job::Parallel& p = job.parallel;
  if (row.pace != agree::Pace::kStep) {
    const int replicas = roles_of(job).num_replicas();
    const char* const of = tiles_of(job) > 1 ? "replica" : "worker";
    c.expect(t.logical_shards == 0 || t.logical_shards == replicas, "train.logical_shards",
             fmt::format("0, or {} as there are {}s: with agreement '{}' every {} has one shard", replicas,
                         of, row.name, of));
    c.expect(p.check_steps == 0, "parallel.check_steps",
             fmt::format("0: with agreement '{}' replicas differ between exchanges", row.name));
    c.expect(
        t.trace_steps == 0, "train.trace_steps",
        fmt::format("0: agreement '{}' writes no trace, since its workers do not step together; trace with "
                    "parallel.agreement = bsp",
                    row.name));
  }
  if (!row.updates_here) {
    const std::string why = fmt::format(
        ": agreement '{}' runs the optimizer on servers, which never see a "
        "whole gradient",
        row.name);
    c.expect(t.optimizer.clip_norm == 0, "train.optimizer.clip_norm", "0" + why);
    c.expect(t.nan == "stop", "train.nan", "stop" + why);
    c.expect(t.precision != "f16", "train.precision", "f32 or bf16" + why);
    c.expect(t.optimizer.max_batch_multiplier == 1, "train.optimizer.max_batch_multiplier", "1" + why);
  }
  const int replicas = roles_of(job).num_replicas();
  c.expect(!row.needs_peers || replicas > 1 || tiles_of(job) == 1, "parallel.mesh",
           fmt::format("an axis data of 2 or more: agreement '{}' is among replicas", row.name));
  c.expect(!row.needs_peers || replicas > 1, "parallel.workers",
           fmt::format("2 or more: agreement '{}' is among peers; add --workers 2", row.name));
  c.expect_ok(check_transport(job, p.transport), "parallel.transport");
  const std::string transport = p.transport == "auto" ? "shm" : p.transport;
  if (p.weights == "shared")
    c.expect_ok(can_share_weights(job, sending_of(job), transport, replicas), "parallel.weights");
}

// Pins name the axis that cuts the model.
void check_pins(JobChecker& c, const Job& job, const parallel::Mesh& mesh) {
  for (const std::string& text : job.parallel.layouts.value_or(std::vector<std::string>())) {
    const Result<parallel::LayoutPin> pin = parallel::parse_pin(text);
    c.expect_ok(pin.status(), "parallel.layouts");
    if (!pin.ok()) continue;
    c.expect(pin->axis == parallel::kModelAxis && tiles_of(job) > 1, "parallel.layouts",
             fmt::format("axis {} of a parallel.mesh that has it, such as data={},model=2",
                         parallel::kModelAxis, mesh.num_replicas()));
  }
}

// What a model that is cut over workers cannot go together with.
void check_mesh_rest(JobChecker& c, const Job& job) {
  const std::string why = why_cut(job);
  const Result<Seating> seating = seating_of(job, tiles_of(job));
  c.expect(job.parallel.weights != "shared" || !seating.ok() || seating->is_plain(), "parallel.weights",
           "auto or own where a worker has several tiles, which have no memory in common with other workers");
  const auto optimizer = model::find_optimizer(job.train.optimizer.kind);
  if (!optimizer.ok() || !(*optimizer)->whole_tensors) return;
  // Tiles tell each other how long their pieces are before they update them.
  const auto rule = agree::find_agreement(job.parallel.agreement);
  const std::string rate = fmt::format(": '{}' has a rate per tensor", (*optimizer)->name);
  c.expect(!rule.ok() || ((*rule)->pace == agree::Pace::kStep && !(*rule)->needs_server),
           "train.optimizer.kind",
           "another optimizer, such as momentum, or parallel.agreement = bsp" + why + rate +
               ", and only steps that all take together bring its pieces together");
  c.expect(job.train.device != "cuda", "train.device", "cpu" + why + rate);
}

// How activations move along the model axis.
void check_chunks(JobChecker& c, const Job& job) {
  const std::string scheme = job.options.text(kFcScheme);
  c.expect(scheme == "broadcast" || job.options.text(kStyle) == "one-weird-trick", kFcScheme.name,
           "broadcast, or parallel.style = one-weird-trick, whose fully connected layers it is about");
  c.expect(scheme != "vertical" || job.options.integer(kOverlapChunks) == 1, kOverlapChunks.name,
           "1 with parallel.fc_scheme = vertical, which has a chunk per position");
}

// What a model that is cut into segments cannot go together with.
void check_segments_rest(JobChecker& c, const Job& job) {
  const std::string why = fmt::format(" where the model is cut into {} segments", segments_of(job));
  const auto row = agree::find_agreement(job.parallel.agreement);
  c.expect(!row.ok() || ((*row)->pace == agree::Pace::kStep && !(*row)->needs_server), "parallel.agreement",
           "bsp" + why);
  const std::int64_t replicas = mesh_of(job)->num_replicas(), shards = job.train.logical_shards;
  c.expect(job.options.integer(kZero) < 3 || shards % replicas == 0, "train.logical_shards",
           fmt::format("a multiple of {}, as there are replicas: with parallel.zero = 3 all of them gather "
                       "weights for every micro-batch; or parallel.zero = 2",
                       replicas));
  c.expect(job.parallel.weights != "shared", "parallel.weights", "auto or own" + why);
  c.expect(job.train.device != "cuda", "train.device", "cpu" + why);
  constexpr std::int64_t kMostMicroBatches = 1 << 16;  // messages of a step are numbered so far
  const std::int64_t micro = micro_batches_of(job);
  if (micro > kMostMicroBatches)
    return c.expect(false, kMicroBatches.name,
                    fmt::format("between 1 and {}{} (here {})", kMostMicroBatches, why, micro));
  c.expect(job.train.optimizer.max_batch_multiplier <= kMostMicroBatches / std::max<std::int64_t>(1, micro),
           "train.optimizer.max_batch_multiplier",
           fmt::format("{} or less{}: a step has at most {} micro-batches, and a batch has {}",
                       kMostMicroBatches / std::max<std::int64_t>(1, micro), why, kMostMicroBatches, micro));
}

// Pipelines that never drain: no step waits for what all stages know.
void check_overlapping_steps(JobChecker& c, const Job& job, const parallel::Mesh& mesh) {
  const std::string pipeline = job.options.text(kPipeline);
  const int stages = mesh.size_of(parallel::kStageAxis);
  const std::string why =
      fmt::format(" with parallel.pipeline = {}, whose stages never wait for each other", pipeline);
  const std::int64_t micro = micro_batches_of(job);
  c.expect(pipeline != "async" || micro == 1, kMicroBatches.name,
           fmt::format("1, or 0{}; 2bw updates after several (here {})", why, micro));
  c.expect(pipeline != "2bw" || micro >= stages, kMicroBatches.name,
           fmt::format("{} or more with parallel.pipeline = 2bw: as many as there are stages, else two "
                       "versions of the weights are not enough (here {})",
                       stages, micro));
  c.expect(job.train.optimizer.clip_norm == 0, "train.optimizer.clip_norm", "0" + why);
  c.expect(job.train.precision != "f16", "train.precision",
           "f32 or bf16" + why + ": its loss scale follows all gradients");
  c.expect(job.train.nan == "stop", "train.nan", "stop" + why);
  c.expect(job.options.integer(kZero) == 0, kZero.name, "0" + why);
  c.expect(job.train.optimizer.max_batch_multiplier == 1, "train.optimizer.max_batch_multiplier",
           "1" + why + ": its timetables have one batch in every step");
}

// Stages, segments and micro-batches that fit each other.
void check_stages(JobChecker& c, const Job& job, const parallel::Mesh& mesh) {
  const int stages = mesh.size_of(parallel::kStageAxis), replicas = mesh.num_replicas();
  const std::string pipeline = job.options.text(kPipeline);
  const std::int64_t chunks = job.options.integer(kVirtualStages), micro = job.options.integer(kMicroBatches),
                     asked = job.options.integer(kSegments), shards = job.train.logical_shards;
  const std::int32_t segments = segments_of(job);
  c.expect(chunks == 1 || pipeline == "interleaved", kVirtualStages.name,
           fmt::format("1 with parallel.pipeline = {}; set that to interleaved", pipeline));
  c.expect(pipeline != "interleaved" || chunks > 1, kVirtualStages.name,
           "2 or more with parallel.pipeline = interleaved");
  if (const auto& cuts = job.parallel.stage_cuts; cuts && !cuts->empty())
    c.expect(asked == 0 || asked == segments, kSegments.name,
             fmt::format("0 or {}: parallel.stage_cuts has {} cuts", segments, cuts->size()));
  const bool is_named = job.parallel.stage_cuts && !job.parallel.stage_cuts->empty();
  c.expect(segments >= stages * chunks, is_named ? "parallel.stage_cuts" : kSegments.name,
           fmt::format("{} or more: a mesh with stage={}{} has {} stages in all", stages * chunks - is_named,
                       stages, chunks > 1 ? fmt::format(" and {} virtual stages each", chunks) : "",
                       stages * chunks));
  c.expect(micro == 0 || shards == 0 || micro * replicas == shards, kMicroBatches.name,
           fmt::format("{}, or 0: train.logical_shards = {} are shared by {} replica{}",
                       shards / std::max(1, replicas), shards, replicas, replicas == 1 ? "" : "s"));
  c.expect(micro <= 1 || segments > 1, kMicroBatches.name,
           fmt::format("0 without a stage axis; set parallel.mesh, such as data={},stage=2", replicas));
  const auto row = parallel::find_timetable_row(pipeline);
  c.expect_ok(row.status(), kPipeline.name);
  const bool drains = !row.ok() || (*row)->is_synchronous;
  c.expect(pipeline == "async" || !job.options.flag(kVerticalSync), kVerticalSync.name,
           fmt::format("false with parallel.pipeline = {}; it is for async", pipeline));
  const bool stashes = job.options.flag(kWeightStashing);
  c.expect(pipeline == "async" || stashes, kWeightStashing.name,
           fmt::format("true with parallel.pipeline = {}; without it is for async", pipeline));
  c.expect(!job.options.flag(kVerticalSync) || stashes, kWeightStashing.name,
           "true with parallel.vertical_sync, which reads older versions; set one of the two");
  c.expect(job.train.memory_limit.empty() || stashes, kWeightStashing.name,
           "true with train.memory_limit: what is recomputed on the way back would be of newer weights");
  if (segments > 1) {
    if (!drains) check_overlapping_steps(c, job, mesh);
    return check_segments_rest(c, job);
  }
  for (const OptionSpec& spec : {kPipeline, kVirtualStages, kVerticalSync, kWeightStashing})
    if (const OptionValue* given = job.options.find(spec.name))
      c.expect(*given == spec.initial(), spec.name,
               fmt::format("its default without a stage axis; set parallel.mesh, such as data={},stage=2",
                           replicas));
}

void check_job_mesh(JobChecker& c, const Job& job) {
  const Result<parallel::Mesh> mesh = mesh_of(job);
  c.expect_ok(mesh.status(), "parallel.mesh");
  c.expect_ok(parallel::find_style(job.options.text(kStyle)).status(), kStyle.name);
  if (!c.status.ok()) return;
  constexpr std::int64_t kMostTiles = 4096;
  const auto& tiles = job.train.logical_tiles;
  c.expect(!tiles || (*tiles >= 1 && *tiles <= kMostTiles), "train.logical_tiles",
           fmt::format("an integer from 1 to {}", kMostTiles));
  if (!c.status.ok()) return;
  c.expect_ok(seating_of(job, tiles_of(job)).status(), "train.logical_tiles");
  check_pins(c, job, *mesh);
  check_stages(c, job, *mesh);
  if (tiles_of(job) > 1) {
    check_chunks(c, job);
    return check_mesh_rest(c, job);
  }
  // The default asks for nothing: so --set takes back what a file says.
  for (const OptionSpec& spec : {kStyle, kFcScheme, kOverlapChunks}) {
    const OptionValue* given = job.options.find(spec.name);
    c.expect(given == nullptr || *given == spec.initial(), spec.name,
             fmt::format("its default without a model axis; set parallel.mesh, such as data={},model=2",
                         mesh->num_replicas()));
  }
}

// Replicas that divide the optimizer's work each need a part of the sums that all have alike.
void check_zero(JobChecker& c, const Job& job, const agree::AgreementRow& row) {
  const std::int64_t level = job.options.integer(kZero);
  if (level == 0) return;
  const std::string why = fmt::format(" where parallel.zero = {} divides the optimizer's state", level);
  c.expect(row.pace == agree::Pace::kStep && !row.needs_server && row.updates_here, "parallel.agreement",
           "bsp" + why);
  c.expect(sending_of(job).is(Sending::Kind::kDense), "parallel.codec",
           fmt::format("none{}: whoever decodes has whole gradients", why));
  c.expect(job.parallel.collective == "fixed-tree", "parallel.collective",
           fmt::format("fixed-tree{}: parts of a sum have its bits there", why));
  c.expect(job.parallel.weights != "shared", "parallel.weights",
           fmt::format("auto or own{}; shared weights are there once per host, with their state", why));
  c.expect(job.train.device != "cuda", "train.device", "cpu" + why);
  const auto optimizer = model::find_optimizer(job.train.optimizer.kind);
  c.expect(!optimizer.ok() || !(*optimizer)->whole_tensors, "train.optimizer.kind",
           "an optimizer that does not look at whole tensors" + why);
}

void check_codec_options(JobChecker& c, const Job& job) {
  const Job::Parallel& p = job.parallel;
  check_ranges(c, job, OptionsOf::kCodec);
  c.expect_one_of(p.codec_tolerance, "parallel.codec_tolerance", {"exact", "rounding", "feedback"});
  c.expect_one_of(p.reducer, "parallel.reducer", {"auto", "gather", "split", "sparse", "doubling"});
}

// Whether a codec, or what stands for one, has this option. Factors are sent as they are.
bool has_option(std::string_view codec, const OptionField& field) {
  if (field.rows.empty()) return codec != "factors";
  if (codec == kLowRankWord) return field.spec->name == kRank.name;
  const auto row = codec::find_codec(codec);
  return row.ok() && find_option((*row)->options, field.spec->name) != nullptr;
}

void check_codec_keys(JobChecker& c, const Job& job) {
  const std::string& codec = job.parallel.codec;
  for_given_options(job, OptionsOf::kCodec, [&](const JobKey& key, const OptionField& field, const auto&) {
    // A codec that is switched off with parallel.codec = none leaves its keys behind; without that they do
    // nothing.
    if (codec == "none" && !job.given_at.contains("parallel.codec"))
      c.expect(!job.given_at.contains(key.path), key.path,
               fmt::format("it not to be set without parallel.codec{}",
                           field.rows.empty() ? "" : fmt::format("; set that to one of: {}", field.rows)));
    if (codec == "none" || codec == "auto") return;
    c.expect(has_option(codec, field), key.path,
             fmt::format("it not to be set with parallel.codec = \"{}\"; it is for {}", codec,
                         field.rows.empty() ? "the others" : field.rows));
  });
}

// Whether velocities may be made before they are encoded: the optimiser has none, or can do without.
bool takes_momentum(const Job::Optimizer& o, bool lock_step) {
  if (o.kind == "sgd" || !lock_step) return o.kind == "sgd";
  if (o.kind == "adamw") return true;  // its decay has no momentum
  const bool fits = o.kind == "adam" || (o.kind == "momentum" && !o.options.flag(model::kNesterov));
  return fits && o.options.number(model::kWeightDecay) == 0;
}

void check_codec(JobChecker& c, const Job& job, const agree::AgreementRow& row) {
  const Job::Parallel& p = job.parallel;
  const bool in_lock_step = row.pace == agree::Pace::kStep, pulls = p.codec_options.flag(codec::kPull);
  check_codec_options(c, job);
  check_codec_keys(c, job);
  const Result<Sending> sending = parse_sending(p.codec);
  if (!sending.ok() || sending->is(Sending::Kind::kMixed)) {
    c.expect(false, "parallel.codec", parse_sending("").status().message());
    return;
  }
  if (sending->is(Sending::Kind::kFactors)) c.expect_ok(can_send_factors(job), "parallel.codec");
  if (sending->is(Sending::Kind::kDense) || sending->is(Sending::Kind::kFactors)) return;
  const std::string no_codec =
      fmt::format("none: agreement '{}': {}", row.name, row.no_codec == nullptr ? "" : row.no_codec);
  if (sending->is(Sending::Kind::kAuto)) {
    c.expect(row.no_codec == nullptr, "parallel.codec", no_codec);
    c.expect(!pulls || row.needs_server, "parallel.codec_pull",
             fmt::format("false: agreement '{}' has no servers", row.name));
    c.expect(p.codec_options.number(codec::kMomentum) == 0, "parallel.codec_momentum",
             "0 with codec = \"auto\", which may send gradients as they are");
    return;
  }
  if (sending->is(Sending::Kind::kLowRank)) {
    c.expect(
        in_lock_step, "parallel.codec",
        fmt::format("another codec, or parallel.agreement = bsp: powersgd is two sums over all workers in "
                    "every step, and agreement '{}' does not make them",
                    row.name));
    c.expect(p.codec_options.number(codec::kMomentum) == 0, "parallel.codec_momentum", "0 with powersgd");
    return;
  }
  const codec::Coding coding = coding_of(job);
  c.expect_ok(sending->codec->make(coding.options).status(), "parallel.codec");
  c.expect(row.no_codec == nullptr, "parallel.codec", no_codec);
  c.expect(coding.momentum == 0 || takes_momentum(job.train.optimizer, in_lock_step),
           "parallel.codec_momentum",
           in_lock_step
               ? "0, or train.optimizer.kind = sgd, adamw, or momentum or adam with weight_decay = 0: the "
                 "velocities are the shards' own"
               : "0, or train.optimizer.kind = sgd: the velocities are the workers' own");
  const std::int64_t fixed = job.train.optimizer.options.integer(model::kFixedAfter);
  c.expect(
      !encoders_make_momentum(job, *sending) || job.train.optimizer.kind == "momentum" ||
          (fixed > 0 && fixed <= coding.dense_steps),
      "train.optimizer.fixed_after",
      fmt::format("between 1 and parallel.codec_dense_steps = {}: with parallel.codec_momentum what comes is "
                  "no gradient to make second moments of",
                  coding.dense_steps));
  c.expect(!pulls || coding.row->bound != codec::Bound::kUnbiased, "parallel.codec_pull",
           fmt::format("false: codec '{}' is right on average only, and what servers send is kept", p.codec));
  if (row.sends_differences) {
    c.expect(p.reducer != "split", "parallel.reducer",
             fmt::format("auto, gather, sparse or doubling: with agreement '{}' what a sum that is encoded "
                         "again leaves out would be counted twice",
                         row.name));
    c.expect(p.codec_options.flag(codec::kFeedback), "parallel.codec_feedback",
             fmt::format("it not to be set: with agreement '{}' what was not sent is part of the next "
                         "difference",
                         row.name));
  }
  const bool changes = row.needs_peers || row.pace == agree::Pace::kPeriod;
  c.expect(
      coding.momentum == 0 || !changes, "parallel.codec_momentum",
      fmt::format("0: under agreement '{}' changes of weights travel, which have their momentum", row.name));
  c.expect(!pulls || row.needs_server, "parallel.codec_pull",
           fmt::format("false: agreement '{}' has no servers", row.name));
}

}  // namespace

void check_parallel(JobChecker& c, const Job& job) {
  const Job::Parallel& p = job.parallel;
  c.expect(p.workers >= 1 && p.workers <= kMostRanks, "parallel.workers", "between 1 and 65536");
  c.expect_one_of(p.transport, "parallel.transport", {"auto", "shm", "tcp", "mpi", "inproc"});
  c.expect(p.bucket_bytes >= 0, "parallel.bucket_bytes", "1 or more, or 0: chosen by the cost model");
  c.expect(plan::find_overlap(p.overlap).ok(), "parallel.overlap", "none, buckets or full");
  c.expect(p.deadline_ms >= 100, "parallel.deadline_ms", "100 or more");
  if (!p.link.empty()) c.expect_ok(cost::parse_link(p.link).status(), "parallel.link");
  c.expect_one_of(p.weights, "parallel.weights", {"auto", "shared", "own"});
  c.expect_one_of(p.device_collectives, "parallel.device_collectives", {"auto", "mapped", "nccl", "staged"});
  c.expect(p.device_collectives != "nccl" || job.train.logical_shards == 0, "parallel.device_collectives",
           "auto, mapped or staged where train.logical_shards is set: NCCL adds in an order that depends on "
           "the number of workers, and logical shards promise the same bits for any");
  c.expect(p.check_steps >= 0, "parallel.check_steps", "0 or more");
  c.expect_ok(collective::find_algorithm(collective::Kind::kAllreduce, p.collective).status(),
              "parallel.collective");
  c.expect(p.collective != "hierarchical", "parallel.collective",
           "an algorithm that needs no groups of ranks");
  const auto agreement = agree::find_agreement(p.agreement);
  c.expect_ok(agreement.status(), "parallel.agreement");
  if (!agreement.ok() || !c.status.ok()) return;
  check_job_mesh(c, job);
  if (!c.status.ok()) return;
  check_servers(c, p, **agreement);
  check_rule_options(c, job, **agreement);
  check_codec(c, job, **agreement);
  check_zero(c, job, **agreement);
  check_rest(c, job, **agreement);
}

}  // namespace trireme::job
