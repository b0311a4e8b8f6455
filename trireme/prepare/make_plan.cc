// A fresh plan: buckets and what they travel in, as the job says or as costs least.
#include "trireme/prepare/make_plan.h"

#include <algorithm>

#include "trireme/agree/agree.h"
#include "trireme/agree/traffic.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/kernel/kernel.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/coded_buckets.h"
#include "trireme/prepare/factors.h"
#include "trireme/prepare/stages.h"
#include "trireme/prepare/tiles.h"

namespace trireme::prepare {

// What the job asks for, as far as it can be done: where updates wait for all gradients, one worker has
// nothing to hide, and other rules have steps of their own.
Result<plan::Overlap> possible_overlap(const job::Job& job, int world, bool on_gpu, bool gpu_buckets) {
  TR_ASSIGN_OR_RETURN(const plan::Overlap wanted, plan::find_overlap(job.parallel.overlap));
  if (on_gpu)
    return gpu_buckets && wanted != plan::Overlap::kNone ? plan::Overlap::kBuckets : plan::Overlap::kNone;
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* rule, agree::find_agreement(job.parallel.agreement));
  if (rule->pace != agree::Pace::kStep) return plan::Overlap::kBuckets;
  const bool barrier = job::waits_for_all(job) || rule->needs_server;
  return wanted == plan::Overlap::kFull && (world == 1 || barrier) ? plan::Overlap::kBuckets : wanted;
}

cost::Rates rates_of(const PrepareOptions& options) {
  if (options.rates != nullptr) return *options.rates;
  cost::Rates rates;
  rates.machine = options.machine;
  rates.comm = cost::CommModel(options.link, options.machine);
  return rates;
}

Result<plan::Replicas> replicas_of(const job::Job& job, const plan::Plan& plan,
                                   const PrepareOptions& options) {
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* rule, agree::find_agreement(job.parallel.agreement));
  plan::Replicas replicas;
  replicas.traffic = agree::traffic_of(*rule, job::rule_options(job), plan.workers());
  for (const plan::Bucket& b : plan.buckets)  // a sum of encodings is waited for
    if (b.message_bytes > 0 && replicas.traffic.path == cost::Traffic::Path::kAllreduce)
      replicas.traffic.hidden = false;
  const job::Roles roles = job::roles_of(job);
  replicas.servers = roles.servers;
  replicas.colocated = roles.world == roles.workers;
  replicas.codes_pulls = job.parallel.codec_options.flag(codec::kPull);
  replicas.rates = rates_of(options);
  return replicas;
}

Result<plan::StepPrediction> predict_step(const job::Job& job, const plan::Plan& plan,
                                          const plan::StepCosts& costs, const PrepareOptions& options) {
  TR_ASSIGN_OR_RETURN(const plan::Replicas replicas, replicas_of(job, plan, options));
  plan::StepPrediction prediction = plan::predict_replicas(plan, costs, replicas);
  prediction.one_worker_seconds = plan::one_worker_seconds(plan, costs, replicas.rates);
  return prediction;
}

namespace {

using Kind = job::Sending::Kind;

std::int64_t bucket_bytes(const job::Job& job, const job::Sending& sending, const PrepareOptions& options,
                          const plan::Plan& plan, const std::vector<plan::ParameterSize>& sizes) {
  constexpr std::int64_t kAlone = 1 << 20;                // one worker: nothing travels, updates start early
  constexpr std::int64_t kWhole = std::int64_t{1} << 40;  // on a GPU: all updates in one launch
  constexpr std::int64_t kGpuLeast = 64 << 20;            // meetings and launches cost more than bytes there
  constexpr std::int64_t kCoded = 4 << 20;  // what is encoded together must not depend on the workers
  if (job.parallel.bucket_bytes > 0) return job.parallel.bucket_bytes;
  if (options.device != nullptr && codes_on_gpu(job, sending, job.parallel.reducer)) return kGpuLeast;
  if (!sending.is(Kind::kDense) && !sending.is(Kind::kFactors)) return kCoded;
  if (options.replicas == 1) return options.device != nullptr ? kWhole : kAlone;
  std::int64_t elems = 0;
  for (const plan::ParameterSize& p : sizes) elems += p.num_elems;
  const auto seconds = [&](std::int64_t count) {
    return plan::exchange_seconds(plan, count, job.parallel.collective, options.machine, options.link);
  };
  const double startup = seconds(1);
  const double per_byte = (seconds(elems) - startup) / (4.0 * static_cast<double>(elems) + 1);
  const std::int64_t best = plan::best_bucket_bytes(4 * elems, startup, per_byte);
  return options.device != nullptr ? std::max(best, kGpuLeast) : best;
}

}  // namespace

std::int32_t logical_shards_of(const job::Job& job, int replicas) {
  if (job.train.logical_shards > 0) return static_cast<std::int32_t>(job.train.logical_shards);
  return static_cast<std::int32_t>(replicas * job::micro_batches_of(job));
}

std::int64_t shard_batch_of(const job::Job& job, int replicas) {
  const std::int64_t shards = logical_shards_of(job, replicas);
  return (job.train.batch + shards - 1) / shards;
}

int shard_threads_of(const job::Job& job, const PrepareOptions& options) {
  if (job.train.shard_threads > 0) return static_cast<int>(job.train.shard_threads);
  if (job.train.logical_shards > 0) return 1;
  const auto local_replicas = static_cast<int>(job.parallel.agreement_options.integer(agree::kLocalReplicas));
  return std::max(1, options.compute_threads / local_replicas);
}

Result<plan::Plan> fresh_plan(const job::Job& job, const PrepareOptions& options, const Prepared& prepared,
                              const job::Sending& sending, const TensorSendings& each) {
  plan::Plan plan;
  plan.job_sha256 = job::job_sha256(job);
  plan.logical_shards = logical_shards_of(job, options.replicas);
  plan.shard_batch = shard_batch_of(job, options.replicas);
  plan.shard_threads = shard_threads_of(job, options);
  plan.agreement = job.parallel.agreement;
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* rule, agree::find_agreement(job.parallel.agreement));
  plan.timetable = rule->pace == agree::Pace::kStep ? plan::Timetable::kLockStep : plan::Timetable::kLeased;
  std::vector<plan::ParameterSize> sizes, statistics;
  for (const model::Parameter& p : prepared.parameters) sizes.push_back({p.name, p.type.shape.num_elems()});
  for (const model::Statistic& s : prepared.statistics)
    statistics.push_back({s.name, s.type.shape.num_elems()});
  // How the mesh cuts the model was decided before (tiles.h).
  plan.tiles = prepared.plan.tiles;
  plan.tile_owners = prepared.plan.tile_owners;
  plan.train_cuts = prepared.plan.train_cuts;
  plan.eval_cuts = prepared.plan.eval_cuts;
  plan.segment_train_cuts = prepared.plan.segment_train_cuts;
  plan.segment_eval_cuts = prepared.plan.segment_eval_cuts;
  plan.tile_seconds = prepared.plan.tile_seconds;
  plan.tile_bytes = prepared.plan.tile_bytes;
  plan.layouts = prepared.plan.layouts;
  plan.segments = prepared.plan.segments;
  plan.segment_cuts = prepared.plan.segment_cuts;
  plan.segment_owners = prepared.plan.segment_owners;
  plan.virtual_stages = prepared.plan.virtual_stages;
  plan.pipeline = prepared.plan.pipeline;
  if (plan.layouts.empty()) put_tiling({}, options.replicas, prepared, plan);
  plan.owners = parallel::even_runs(plan.logical_shards, options.replicas);
  const bool may_have_factors = job::can_send_factors(job).ok();
  if ((sending.is(Kind::kFactors) || !each.empty()) && may_have_factors) {
    TR_ASSIGN_OR_RETURN(const model::ModelGraphs shard,
                        job::build_job_model(job, prepared.input, plan.shard_batch));
    TR_RETURN_IF_ERROR(choose_factors(shard.train, plan, job::roles_of(job).servers, sizes));
  }
  for (plan::ParameterSize& p : sizes)
    if (const auto found = each.find(p.name); !each.empty()) {
      const job::Sending own = found == each.end() ? job::Sending() : found->second;
      if (!own.is(Kind::kFactors)) p.u_elems = p.v_elems = 0;
      if (own.is(Kind::kLowRank)) p.sum = plan::Bucket::kLowRank;
      if (own.codec != nullptr) p.codec = own.codec->name;
    }
  const std::int64_t bytes = bucket_bytes(job, sending, options, plan, sizes);
  plan.buckets = plan::make_buckets(sizes, bytes, job.parallel.collective, statistics);
  if (plan.segments > 1) {
    TR_ASSIGN_OR_RETURN(plan.buckets, segment_buckets(job, prepared, sizes, bytes));
  }
  TR_RETURN_IF_ERROR(plan::check_num_buckets(plan.buckets.size()));
  plan.kernel_library = options.device != nullptr
                            ? kernel::cuda::cuda_kernel_library(*kernel::cuda::as_cuda(options.device.get()))
                            : kernel::cpu_kernel_library();
  TR_RETURN_IF_ERROR(
      code_buckets(job, sending, prepared.parameters, rates_of(options), options.device != nullptr, plan));
  return plan;
}

}  // namespace trireme::prepare
