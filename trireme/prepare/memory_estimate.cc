#include "trireme/prepare/memory_estimate.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "trireme/comm/host_room.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/prepare/batch.h"
#include "trireme/prepare/coded_buckets.h"
#include "trireme/prepare/factors.h"
#include "trireme/prepare/laid_out.h"
#include "trireme/prepare/make_plan.h"
#include "trireme/prepare/own_update.h"
#include "trireme/prepare/prepare.h"
#include "trireme/prepare/stage_weights.h"

namespace trireme::prepare {
namespace {

constexpr std::int64_t kLargestBatch = 1 << 24;  // nobody asks for more
constexpr std::int64_t kPage = 2 << 20;          // of GPU memory
constexpr std::int64_t kEvalBatches = 2;         // one behind the other is as much as many are

std::int64_t bytes_of_type(const TensorType& type) { return static_cast<std::int64_t>(type.num_bytes()); }

std::int64_t arena_of(const Compiled& compiled) { return compiled == nullptr ? 0 : compiled->arena_bytes(); }

Status check(const job::Job& job, int threads) {
  if (job.train.batch >= 1 && job.parallel.workers >= 1 && job.train.logical_shards >= 0 && threads >= 1)
    return {};
  return error(Code::kInvalid,
               "[job] got batch {}, {} workers, {} logical shards, {} threads; expected at least one of each "
               "(logical shards may be 0)",
               job.train.batch, job.parallel.workers, job.train.logical_shards, threads);
}

std::int64_t num_shards(const job::Job& job) {
  return logical_shards_of(job, job::roles_of(job).num_replicas());
}

// What DeviceAhead has on a GPU of one batch.
Result<std::int64_t> ahead_bytes(const model::ModelInput& input, std::int64_t samples) {
  TR_ASSIGN_OR_RETURN(const BatchTensors b, allocate_batch(phantom_device(), input, samples));
  return bytes_of_type(b.x.type()) + bytes_of_type(b.labels.type());
}

// Whether the ranks of a host read each other's memory where it lies.
bool shares_memory(const plan::Plan& plan) { return plan.transport == "shm"; }

// The same of gradients; the other collectives go by messages (comm/direct_calls.h).
bool sums_in_place(const plan::Plan& plan, const plan::Bucket& bucket) {
  return shares_memory(plan) && (bucket.collective == "fixed-tree" || bucket.collective == "two-shot");
}

struct Exchange {
  std::int64_t dense_steps = 0;
  bool in_parts = false;
  bool dealt = false;  // every worker has one shard of a sum
};

// Scratch of the first rank, which has as many shards as any.
Result<std::int64_t> scratch_of(const plan::Plan& plan, const plan::Bucket& bucket, const Exchange& how) {
  if (sums_in_place(plan, bucket) || bucket.sends_factors()) return 0;  // gathered in place
  if (bucket.message_bytes > 0 && how.dense_steps == 0) return 0;       // see codec_bytes
  collective::ScheduleSpec spec{.world = plan.workers(), .count = bucket.num_elems};
  if (how.in_parts) {
    spec.kind = collective::Kind::kReduceScatter;
    spec.count = parameter_elems(bucket);
    for (int w = 0; w < plan.workers(); ++w) spec.counts.push_back(own_part(plan, bucket, w).size());
  }
  TR_ASSIGN_OR_RETURN(const collective::Algorithm* algorithm,
                      collective::find_algorithm(spec.kind, bucket.collective));
  if (algorithm->fixed_order) {
    spec.num_leaves = how.dealt ? plan.workers() : plan.logical_shards;
    spec.leaf_runs = how.dealt ? parallel::even_runs(plan.workers(), plan.workers()) : plan.owners;
  }
  if (plan.workers() == 1 || !algorithm->applicable(spec).ok()) return 0;
  TR_ASSIGN_OR_RETURN(const collective::RankProgram program, algorithm->build(spec, 0));
  const auto& scratch = program.scratch_elems;
  return 4 * std::accumulate(scratch.begin(), scratch.end(), std::int64_t{0});
}

// As if all buckets were under way at once, each in a run of its own. How many really are is a matter of
// time. Gradients that are divided in every micro-batch leave segment by segment.
Result<std::int64_t> exchange_bytes(const Prepared& p, const Exchange& how) {
  std::int64_t bytes = 0;
  std::vector<std::int64_t> of_buckets;
  for (const plan::Bucket& bucket : p.plan.buckets) {
    TR_ASSIGN_OR_RETURN(const std::int64_t own, scratch_of(p.plan, bucket, how));
    of_buckets.push_back(own);
    bytes += own;
  }
  if (!how.dealt) return bytes;
  std::int64_t most = 0;
  for (const StageSegment& s : p.stages->segments) {
    std::int64_t own = 0;
    for (const std::size_t b : s.buckets) own += of_buckets[b];
    most = std::max(most, own);
  }
  return most;
}

// What encoders keep from step to step, and messages on their way out and in. Messages are counted as they
// usually are; the rooms of sums in rounds are those of dense ones.
std::int64_t codec_bytes(const job::Job& job, const Prepared& p, std::int64_t shards) {
  double bytes = 0;
  for (const plan::Bucket& b : p.plan.buckets) {
    const auto row = comm::find_sum(b.sum);
    if (b.message_bytes <= 0 || !row.ok()) continue;
    const codec::Coding coding = bucket_coding(job, p.sending, b);
    const double dense = 4.0 * static_cast<double>(b.num_elems), own = static_cast<double>(shards);
    comm::SumShape shape = plan::sum_shape(p.plan, b);
    shape.keeps = coding.row != nullptr ? coding.feedback : job::low_rank_options(job).feedback;
    if (shape.keeps) bytes += own * dense;
    if (coding.momentum > 0) bytes += own * dense;
    bytes += own * b.message_bytes + (*row)->held_bytes(shape);
  }
  return static_cast<std::int64_t>(bytes);
}

// The same of a resident model (comm/device/message_coder.h): messages are where they were made, or all
// shards' of one bucket at a time; top-k has its chosen values beside them, and sums of subtrees of the fixed
// tree.
std::int64_t gpu_codec_bytes(const job::Job& job, const Prepared& p, std::int64_t shards) {
  const plan::Plan& plan = p.plan;
  const auto all = static_cast<double>(plan.logical_shards), own = static_cast<double>(shards);
  double kept = 0, messages = 0, largest = 0;
  for (const plan::Bucket& b : plan.buckets) {
    if (b.message_bytes <= 0) continue;
    const codec::Coding coding = bucket_coding(job, p.sending, b);
    const double dense = 4.0 * static_cast<double>(b.num_elems);
    kept += (coding.feedback ? own : 0) * dense + (coding.momentum > 0 ? own : 0) * dense;
    messages += own * b.message_bytes;
    largest = std::max(largest, b.message_bytes);
    if (coding.row == nullptr || !coding.row->sends_few) continue;
    kept += 2 * b.message_bytes;
    for (std::int32_t subtree = 4; subtree <= plan.logical_shards; subtree *= 2) kept += dense;
  }
  const std::string& way = job.parallel.device_collectives;
  if (way == "staged" || way == "nccl") messages = (all + own) * largest;
  return static_cast<std::int64_t>(kept + messages);
}

std::int64_t bytes_of_variables(const auto& list) {
  std::int64_t bytes = 0;
  for (const auto& variable : list) bytes += bytes_of_type(variable.type);
  return bytes;
}

// What a replica has of the variables of a plan (Plan::zero_level).
class Owned {
 public:
  static Result<Owned> make(const job::Job& job, const Prepared& p, int replica) {
    Owned out;
    out.level_ = p.plan.zero_level();
    for (const plan::Bucket& bucket : p.plan.buckets) {
      const comm::Chunk part = own_part(p.plan, bucket, replica);
      out.others_.push_back(4 * (parameter_elems(bucket) - part.size()));
      if (out.level_ == 0) continue;
      TR_ASSIGN_OR_RETURN(const std::vector<ParameterSlice> slices, slices_of(bucket, p.parameters, part));
      for (const ParameterSlice& s : slices) out.elems_[s.parameter->name] = s.count;
      TR_ASSIGN_OR_RETURN(const Compiled update, compile_own_update(job, p, slices));
      out.updates_ += arena_of(update);
    }
    return out;
  }

  // What it has of a parameter, or of a state of one.
  std::int64_t bytes_of(const Prepared& p, const std::string& name, const TensorType& type,
                        const std::string& parameter) const {
    if (!is_divided(p, name)) return bytes_of_type(type);
    const auto own = elems_.find(parameter);
    return own != elems_.end() ? own->second * static_cast<std::int64_t>(dtype_size(type.dtype)) : 0;
  }
  std::int64_t parameters(const Prepared& p) const {
    std::int64_t bytes = 0;
    for (const auto& v : p.parameters) bytes += bytes_of(p, v.name, v.type, v.name);
    return bytes;
  }
  std::int64_t states(const Prepared& p) const {
    std::int64_t bytes = 0;
    for (const auto& v : p.states) bytes += bytes_of(p, v.name, v.type, v.parameter);
    return bytes;
  }
  std::int64_t updates() const { return updates_; }

  // What this rank writes of a checkpoint: the first of those that hold a piece writes it.
  std::int64_t written(const Prepared& p, int replica) const {
    std::int64_t bytes = 0;
    const auto add = [&](const auto& v, const std::string& parameter) {
      const bool first = p.tile == 0 || laid_out(p, v.name, v.type).whole != v.type;
      if (first && (replica == 0 || is_divided(p, v.name))) bytes += bytes_of(p, v.name, v.type, parameter);
    };
    for (const auto& v : p.parameters) add(v, v.name);
    for (const auto& v : p.frozen) add(v, v.name);
    for (const auto& v : p.states) add(v, v.parameter);
    for (const auto& v : p.statistics) add(v, v.name);
    return bytes;
  }

  // What others have of the parameters, while it is here (WeightGathers): of two buckets in a step.
  std::int64_t gathered_in_step(const Prepared& p) const {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < p.gathers.size(); ++i) {
      const std::int64_t next = i + 1 < p.gathers.size() ? others_[p.gathers[i + 1].bucket] : 0;
      most = std::max(most, others_[p.gathers[i].bucket] + next);
    }
    return most;
  }
  std::int64_t gathered_in(const WeightUses& uses) const { return most_at_once(uses, others_); }
  std::int64_t all_gathered() const {
    return level_ == 3 ? std::accumulate(others_.begin(), others_.end(), std::int64_t{0}) : 0;
  }

 private:
  int level_ = 0;
  std::int64_t updates_ = 0;          // places of the optimizer's graphs
  std::vector<std::int64_t> others_;  // per bucket, bytes
  std::map<std::string, std::int64_t> elems_;
};

// Whether steps go on while a checkpoint is written. Epochs of whose length the job says nothing are thought
// to be longer than the steps that it says.
bool saves_on_the_way(const job::Job& job) {
  const auto& t = job.train;
  if (t.checkpoint_minutes > 0) return true;
  if (t.checkpoint_steps > 0) return t.steps == 0 || t.steps > t.checkpoint_steps;
  if (t.steps == 0) return t.epochs > 1;
  return job.data.limit_train > 0 && t.steps * t.batch > job.data.limit_train;
}

std::int64_t shards_of(const job::Job& job, const plan::Plan& plan, int replica) {
  const collective::LeafRun& run = plan.owners[static_cast<std::size_t>(replica)];
  return run.count * job.parallel.agreement_options.integer(agree::kLocalReplicas);
}

// What a stage has where batches grow: sums of the batches of a step, per micro-batch of a batch.
std::int64_t batch_sum_bytes(const job::Job& job, const Prepared& p, std::int64_t shards) {
  std::int64_t elems = 0;
  if (job.train.optimizer.max_batch_multiplier == 1) return 0;
  for (const StageSegment& s : p.stages->segments)
    for (const std::size_t b : s.buckets) elems += p.plan.buckets[b].num_elems;
  return 4 * elems * shards;
}

// What differs where the model is cut in its depth: the words of StageRuns.
Result<std::vector<MemoryPart>> parts_of_stage(const job::Job& job, const Prepared& p, int replica) {
  TR_ASSIGN_OR_RETURN(const Owned owned, Owned::make(job, p, replica));
  TR_ASSIGN_OR_RETURN(const StageBytes bytes, stage_bytes(p, replica));
  TR_ASSIGN_OR_RETURN(const std::int64_t batch, batch_bytes(p.input, p.plan.shard_batch));
  TR_ASSIGN_OR_RETURN(const std::int64_t eval_batch, batch_bytes(p.input, p.eval_batch));
  const std::int64_t shards = shards_of(job, p.plan, replica);
  std::int64_t updates = owned.updates();
  for (const auto* list : {&p.updates, &p.statistics_updates})
    for (const Compiled& update : *list)
      if (list != &p.updates || p.plan.zero_level() == 0) updates += arena_of(update);
  for (const Compiled& more : {p.finite_check, p.scale_update}) updates += arena_of(more);
  const Exchange how{job::coding_of(job, p.sending).dense_steps, p.deals_shards, p.deals_shards};
  TR_ASSIGN_OR_RETURN(const std::int64_t exchange, exchange_bytes(p, how));
  // Weights are gathered for the phases of a step, or for an evaluation.
  const std::int64_t written = owned.written(p, replica);
  std::int64_t gathered = 0;
  if (p.plan.zero_level() == 3) {
    TR_ASSIGN_OR_RETURN(const WeightUses uses, uses_of_step(p));
    const std::int64_t in_step = owned.gathered_in(uses) + (saves_on_the_way(job) ? written : 0);
    const std::int64_t evaluating = owned.gathered_in(uses_of_evaluation(p, kEvalBatches));
    gathered = std::max<std::int64_t>(0, std::max(in_step, evaluating) - written);
  }
  return std::vector<MemoryPart>{
      {"parameters", "weights, frozen ones and older versions too",
       owned.parameters(p) + bytes_of_variables(p.frozen) + bytes.versions},
      {"optimizer", "its state", owned.states(p)},
      {"statistics", "running means and variances", bytes_of_variables(p.statistics)},
      {"values", "what lives across phases, of every micro-batch in flight", bytes.kept},
      {"workspaces", "what one phase needs", bytes.scratch},
      {"buckets",
       p.deals_shards ? "gradients of a micro-batch, and sums of this replica's part of them"
                      : "gradients of a micro-batch, and sums of them",
       bytes.gradients + batch_sum_bytes(job, p, shards)},
      {"gathered", "weights of other replicas, where that needs more than checkpoints do", gathered},
      {"batches", "samples of the step and of those made ahead", shards * batch * (job.data.prefetch + 1)},
      {"updates", "values of the optimizer's step", updates},
      {"evaluation", "values and samples of evaluating", bytes.evaluation + eval_batch},
      {"exchange", "scratch of the collective, as if all buckets were under way", exchange},
      {"moves", "activations on their way along the axes of a mesh", 0},
      {"codec", "what encoders keep back, and encoded messages", codec_bytes(job, p, shards)},
      {"checkpoint", "the copy that is written while training continues", written},
  };
}

// In the words of Replica: its variables, shards, feed, updates and evaluator.
Result<std::vector<MemoryPart>> parts_of(const job::Job& job, const Prepared& p, int threads, int replica) {
  const plan::Plan& plan = p.plan;
  const std::int64_t shards = shards_of(job, plan, replica);
  TR_ASSIGN_OR_RETURN(const Owned owned, Owned::make(job, p, replica));
  const std::int64_t parameters = owned.parameters(p) + bytes_of_variables(p.frozen);
  const std::int64_t states = owned.states(p), statistics = bytes_of_variables(p.statistics);
  const exec::MemoryReport train = p.train->memory();
  std::int64_t buckets = 4 * p.places.num_elems, updates = 0;
  for (const plan::Bucket& b : plan.buckets)
    if (!b.sends_factors() && p.places.num_elems == 0) buckets += 4 * b.num_elems;
  const std::int64_t per_shard = job.train.optimizer.max_batch_multiplier > 1 ? 2 : 1;  // and sums of batches
  updates = owned.updates();
  if (plan.zero_level() == 0)
    for (const Compiled& update : p.updates) updates += arena_of(update);
  for (const Compiled& more : p.statistics_updates) updates += arena_of(more);
  for (const Compiled& more : {p.finite_check, p.scale_update}) updates += arena_of(more);
  TR_ASSIGN_OR_RETURN(const std::int64_t batch, batch_bytes(p.input, plan.shard_batch));
  TR_ASSIGN_OR_RETURN(const std::int64_t eval_batch, batch_bytes(p.input, p.eval_batch));
  const int at_once = std::max(1, threads / std::max(1, plan.shard_threads));
  const std::int64_t eval_slots = at_once, factors = factor_bytes(p, at_once);
  const Exchange how{job::coding_of(job, p.sending).dense_steps,
                     plan.zero_level() > 0 && p.finite_check == nullptr};
  TR_ASSIGN_OR_RETURN(const std::int64_t exchange, exchange_bytes(p, how));
  const comm::HostRoomOptions room{plan.tiles, shares_memory(plan)};
  TR_ASSIGN_OR_RETURN(const std::int64_t moves, comm::host_room(p.train->graph(), room));
  TR_ASSIGN_OR_RETURN(const std::int64_t eval_moves, comm::host_room(p.eval->graph(), room));
  // The first worker of a host has the weights that all of them share.
  const bool has_weights = !plan.shared_weights || replica == 0;
  const std::int64_t frozen = bytes_of_variables(p.frozen), written = owned.written(p, replica);
  // Parameters are gathered while a step runs, or for an evaluation, which needs no gradients.
  const std::int64_t gradients = shards * per_shard * buckets + factors;
  const std::int64_t in_step = gradients + owned.gathered_in_step(p) + (saves_on_the_way(job) ? written : 0);
  const std::int64_t evaluating = owned.all_gathered() + (p.places.num_elems == 0 ? gradients : 0);
  const std::int64_t gathered =
      std::max<std::int64_t>(0, std::max(in_step, evaluating) - gradients - written);
  return std::vector<MemoryPart>{
      {"parameters", "weights, frozen ones too", has_weights ? parameters : frozen},
      {"optimizer", "its state", has_weights ? states : 0},
      {"statistics", "running means and variances", statistics},
      {"values", "activations and their gradients, places shared where lives allow",
       shards * train.values_bytes},
      {"workspaces", "of kernels, beyond the places of values", shards * train.workspace_bytes},
      {"buckets", "gradients of parameters, of every shard", gradients},
      {"gathered", "weights of other replicas, where that needs more than checkpoints do", gathered},
      {"batches", "samples of the step and of those made ahead", shards * batch * (job.data.prefetch + 1)},
      {"updates", "values of the optimizer's step", updates},
      {"evaluation", "values and samples of evaluating", eval_slots * (arena_of(p.eval) + eval_batch)},
      {"exchange", "scratch of the collective, as if all buckets were under way", exchange},
      {"moves", "activations on their way along the axes of a mesh", shards * moves + eval_moves},
      {"codec", "what encoders keep back, and encoded messages", codec_bytes(job, p, shards)},
      {"checkpoint", "the copy that is written while training continues", written},
  };
}

// In the words of Replica and DeviceRun. A model that is resident is there once; otherwise every execution
// has copies of what it reads and writes.
Result<std::vector<MemoryPart>> gpu_parts_of(const job::Job& job, const Prepared& p, int replica) {
  const std::int64_t shards = shards_of(job, p.plan, replica);
  const exec::MemoryReport train = p.train->memory(), eval = p.eval->memory();
  std::int64_t model = 0, buckets = 0, updates = 0;
  const std::int64_t codec = p.resident ? gpu_codec_bytes(job, p, shards) : 0;
  if (p.resident) {
    model = bytes_of_variables(p.parameters) + bytes_of_variables(p.frozen) + bytes_of_variables(p.states) +
            bytes_of_variables(p.statistics);
    for (const plan::Bucket& b : p.plan.buckets) buckets += 4 * b.num_elems;
    buckets *= shards;
    // Gradients that are added on GPUs lie in whole pages, which other processes may map.
    if (p.plan.logical_shards > 1 && job.parallel.device_collectives != "staged")
      buckets = (buckets + kPage - 1) / kPage * kPage;
    for (const Compiled& update : p.updates) updates += arena_of(update);
    for (const Compiled& more : p.statistics_updates) updates += arena_of(more);
    for (const Compiled& more : {p.finite_check, p.scale_update}) updates += arena_of(more);
  } else {
    model = shards * train.variables_bytes + eval.variables_bytes;
    buckets = shards * train.bound_bytes;
  }
  TR_ASSIGN_OR_RETURN(const std::int64_t ahead, ahead_bytes(p.input, p.plan.shard_batch));
  // Evaluations of a resident model work in the arena of its first shard where they fit (shared_arena.h).
  const bool shared = p.resident && eval.arena_bytes() <= train.arena_bytes();
  return std::vector<MemoryPart>{
      {"model", "weights, optimizer state and running statistics that are on the GPU", model},
      {"values", "activations and their gradients, places shared where lives allow",
       shards * train.values_bytes},
      {"workspaces", "of kernels, beyond the places of values", shards * train.workspace_bytes},
      {"buckets", "gradients of parameters, of every shard", buckets},
      {"batches", "samples of the step and of those sent ahead",
       shards * (train.feeds_bytes + ahead * (job.data.prefetch + 1))},
      {"updates", "values of the optimizer's step", updates},
      {"codec", "what encoders keep back, and encoded messages", codec},
      {"evaluation", "values and samples of evaluating",
       (shared ? 0 : eval.arena_bytes()) + eval.feeds_bytes},
  };
}

// Workers of one host, unless the job says otherwise.
PrepareOptions options_of(const job::Job& job, int threads) {
  PrepareOptions options;
  const parallel::Mesh mesh = job::roles_of(job).mesh;
  const bool is_open = job.parallel.transport == "auto";
  options.replicas = mesh.num_replicas();
  options.tiles = job::tiles_of(job);
  options.stages = job::stages_of(job);
  options.compute_threads = threads;
  options.transport = !is_open ? job.parallel.transport : job.parallel.link.empty() ? "shm" : "tcp";
  return options;
}

}  // namespace

std::int64_t MemoryEstimate::total_bytes() const {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const MemoryPart& p) { return sum + p.bytes; });
}

std::int64_t MemoryEstimate::bytes_of(std::string_view part) const {
  for (const MemoryPart& p : parts)
    if (p.name == part) return p.bytes;
  TR_CHECK(false, "no part '{}'", part);
}

Result<MemoryEstimate> estimate_memory(const job::Job& job, const model::ModelInput& input, int threads,
                                       const StoredPlan& stored) {
  TR_RETURN_IF_ERROR(check(job, threads));
  PrepareOptions options = options_of(job, threads);
  options.fixed = stored;
  TR_ASSIGN_OR_RETURN(const auto prepared, prepare(job, input, options));
  TR_ASSIGN_OR_RETURN(MemoryEstimate estimate, estimate_prepared(job, *prepared, threads));
  // The first worker has as many parts of the model as any, and the first part is as large as any.
  TR_ASSIGN_OR_RETURN(const job::Seating seating, job::seating_of(job, options.tiles));
  const auto seats = std::count(seating.workers.begin(), seating.workers.end(), 0);
  for (MemoryPart& part : estimate.parts) part.bytes *= seats;
  return estimate;
}

Result<std::vector<std::int64_t>> estimate_workers(const job::Job& job, const model::ModelInput& input,
                                                   int threads, const StoredPlan& stored) {
  TR_RETURN_IF_ERROR(check(job, threads));
  PrepareOptions options = options_of(job, threads);
  options.fixed = stored;
  TR_ASSIGN_OR_RETURN(const job::Seating seating, job::seating_of(job, options.tiles));
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(seating.num_workers), 0);
  const int places = options.stages * options.tiles;
  for (int place = 0; place < places; ++place) {
    options.tile = place % options.tiles;
    options.stage = place / options.tiles;
    TR_ASSIGN_OR_RETURN(const auto prepared, prepare(job, input, options));
    if (place == 0) options.fixed = std::make_shared<const plan::Plan>(prepared->whole_plan());
    options.owners_stand = true;
    if (prepared->stages != nullptr) options.like = prepared;
    for (int replica = 0; replica < options.replicas; ++replica) {
      TR_ASSIGN_OR_RETURN(const MemoryEstimate own, estimate_rank(job, *prepared, threads, replica));
      const auto rank = static_cast<std::size_t>(replica * places + place);
      bytes[static_cast<std::size_t>(seating.workers[rank])] += own.total_bytes();
    }
  }
  return bytes;
}

Result<MemoryEstimate> estimate_rank(const job::Job& job, const Prepared& prepared, int threads,
                                     int replica) {
  const plan::Plan& plan = prepared.plan;
  const collective::LeafRun& own = plan.owners[static_cast<std::size_t>(replica)];
  MemoryEstimate out{plan.shard_batch, own.count, plan.shard_threads, {}};
  if (prepared.stages != nullptr) {
    TR_ASSIGN_OR_RETURN(out.parts, parts_of_stage(job, prepared, replica));
  } else if (prepared.device != nullptr) {
    TR_ASSIGN_OR_RETURN(out.parts, gpu_parts_of(job, prepared, replica));
  } else {
    TR_ASSIGN_OR_RETURN(out.parts, parts_of(job, prepared, threads, replica));
  }
  return out;
}

Result<MemoryEstimate> estimate_prepared(const job::Job& job, const Prepared& prepared, int threads) {
  return estimate_rank(job, prepared, threads, 0);
}

// The estimate is nearly linear in the batch, so guesses between a batch that fits and one that does not
// close in within a few steps; halving now and then bounds their number where it is not.
Result<std::int64_t> largest_batch(const job::Job& job, const model::ModelInput& input, int threads,
                                   std::int64_t memory_bytes) {
  TR_RETURN_IF_ERROR(check(job, threads));
  const std::int64_t shards = num_shards(job);
  job::Job trial = job;
  const auto bytes_at = [&](std::int64_t per_shard) -> Result<std::int64_t> {
    trial.train.batch = per_shard * shards;
    TR_ASSIGN_OR_RETURN(const MemoryEstimate estimate, estimate_memory(trial, input, threads));
    return estimate.total_bytes();
  };
  std::int64_t fits = 1, too_large = 0;
  TR_ASSIGN_OR_RETURN(std::int64_t fits_bytes, bytes_at(1));
  if (fits_bytes > memory_bytes) return 0;
  std::int64_t too_large_bytes = 0;
  std::int64_t guess = std::max<std::int64_t>(2, job.train.batch / shards);
  for (int round = 0; too_large == 0 || too_large - fits > 1; ++round) {
    TR_ASSIGN_OR_RETURN(const std::int64_t bytes, bytes_at(guess));
    const std::int64_t before = fits, before_bytes = fits_bytes;
    if (bytes <= memory_bytes) {
      fits = guess, fits_bytes = bytes;
      if (fits * shards >= kLargestBatch) break;
    } else {
      too_large = guess, too_large_bytes = bytes;
    }
    if (too_large == 0) {
      const std::int64_t slope = std::max<std::int64_t>(1, (fits_bytes - before_bytes) / (fits - before));
      // A little beyond the line, so that the next guess is likely too large.
      guess = std::clamp(fits + (memory_bytes - fits_bytes) / slope + 2, fits + 1,
                         std::max(fits + 1, kLargestBatch / shards));
    } else if (round % 4 == 3) {
      guess = fits + (too_large - fits) / 2;
    } else {
      const double at = static_cast<double>(memory_bytes - fits_bytes) /
                        static_cast<double>(std::max<std::int64_t>(1, too_large_bytes - fits_bytes));
      guess = fits + static_cast<std::int64_t>(at * static_cast<double>(too_large - fits));
    }
    if (too_large > 0) guess = std::clamp(guess, fits + 1, std::max(fits + 1, too_large - 1));
  }
  return fits * shards;
}

}  // namespace trireme::prepare
