#include "trireme/train/prepare.h"

#include <algorithm>

#include "trireme/kernel/kernel.h"
#include "trireme/train/job_parts.h"

namespace trireme::train {
namespace {

constexpr std::int64_t kEvalBatch = 200;

// The optimiser's step for the parameters of one bucket: reads "grad:<p>" and "lr", changes the variables.
Result<graph::Graph> update_graph(const Job& job, const plan::Bucket& bucket,
                                  const std::vector<model::Parameter>& parameters) {
  std::vector<model::Parameter> own;
  for (const std::string& name : bucket.parameters) {
    const auto p =
        std::find_if(parameters.begin(), parameters.end(), [&](const auto& q) { return q.name == name; });
    if (p == parameters.end())
      return error(Code::kCorrupt, "[plan] bucket {} names parameter '{}', which the model does not have",
                   bucket.slot, name);
    own.push_back(*p);
  }
  TR_ASSIGN_OR_RETURN(model::UpdateGraph update, model::build_update(optimizer_spec(job), own));
  return std::move(update.graph);
}

exec::CompileOptions kernel_options(const plan::Plan& plan, bool fixed) {
  exec::CompileOptions options;
  options.width = plan.shard_threads;
  if (fixed) {
    options.kernels = plan.kernels;
    options.strict_kernels = true;
  }
  return options;
}

Status compile_all(const Job& job, const model::ModelInput& input, bool fixed, Prepared& out) {
  plan::Plan& plan = out.plan;
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs shard,
                      build_job_model(job, input, plan.shard_batch));
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs eval,
                      build_job_model(job, input, out.eval_batch));
  exec::CompileOptions options = kernel_options(plan, fixed);
  out.bucket_of_notice.clear();
  out.notices_of_bucket.assign(plan.buckets.size(), 0);
  const auto notify = [&](std::string output, std::string variable, std::size_t bucket) {
    options.bound.push_back(output);
    options.notices.push_back({std::move(output), std::move(variable)});
    out.bucket_of_notice.push_back(static_cast<int>(bucket));
    ++out.notices_of_bucket[bucket];
  };
  for (std::size_t i = 0; i < plan.buckets.size(); ++i)
    for (const std::string& p : plan.buckets[i].parameters) notify("grad:" + p, p, i);
  notify("loss", "", plan.buckets.size() - 1);
  notify("correct", "", plan.buckets.size() - 1);
  TR_ASSIGN_OR_RETURN(out.train, exec::compile(shard.train, options));
  TR_ASSIGN_OR_RETURN(out.eval, exec::compile(eval.eval, kernel_options(plan, fixed)));
  for (const plan::Bucket& bucket : plan.buckets) {
    TR_ASSIGN_OR_RETURN(const graph::Graph g, update_graph(job, bucket, out.parameters));
    TR_ASSIGN_OR_RETURN(auto compiled, exec::compile(g, kernel_options(plan, fixed)));
    out.updates.push_back(std::move(compiled));
  }
  return {};
}

plan::Plan fresh_plan(const Job& job, const PrepareOptions& options,
                      const std::vector<model::Parameter>& parameters) {
  plan::Plan plan;
  plan.job_sha256 = job_sha256(job);
  const bool shards_set = job.train.logical_shards > 0;
  plan.logical_shards = static_cast<std::int32_t>(shards_set ? job.train.logical_shards : options.world);
  plan.shard_batch = (job.train.batch + plan.logical_shards - 1) / plan.logical_shards;
  plan.shard_threads = job.train.shard_threads > 0 ? static_cast<int>(job.train.shard_threads)
                       : shards_set                ? 1
                                                   : std::max(1, options.compute_threads);
  plan.agreement = job.parallel.agreement;
  std::vector<plan::ParameterSize> sizes;
  for (const model::Parameter& p : parameters) {
    sizes.push_back({p.name, p.type.shape.num_elems()});
    plan.layouts[p.name] = "replicate";
  }
  plan.buckets = plan::make_buckets(sizes, job.parallel.bucket_bytes, job.parallel.collective);
  plan.kernel_library = kernel::cpu_kernel_library();
  return plan;
}

}  // namespace

std::string velocity_name(const std::string& parameter) { return parameter + "/velocity"; }

Result<std::shared_ptr<const Prepared>> prepare(const Job& job, const model::ModelInput& input,
                                                const PrepareOptions& options) {
  auto out = std::make_shared<Prepared>();
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs probe, build_job_model(job, input, 1));
  if (!probe.statistics.empty())
    return error(
        Code::kInvalid,
        "[model] '{}' has running statistics ({}...), which the trainer does not keep yet; choose a model "
        "without batch norm",
        job.model.name, probe.statistics.front().name);
  out->parameters = probe.parameters;
  out->eval_batch = kEvalBatch;
  const bool fixed = options.fixed != nullptr;
  out->plan = fixed ? *options.fixed : fresh_plan(job, options, probe.parameters);
  plan::Plan& plan = out->plan;
  if (plan.job_sha256 != job_sha256(job))
    return error(Code::kInvalid, "[plan] the plan belongs to another job; use a new run folder");
  if (options.world > plan.logical_shards)
    return error(
        Code::kInvalid,
        "[plan] {} workers cannot share the {} logical shards of this run; use --workers {} or fewer",
        options.world, plan.logical_shards, plan.logical_shards);
  plan.owners = plan::even_runs(plan.logical_shards, options.world);
  plan.transport = options.transport;
  TR_RETURN_IF_ERROR(compile_all(job, input, fixed, *out));
  cost::OpCost update_cost;
  for (const auto& update : out->updates) update_cost += update->cost();
  plan.prediction = plan::predict(plan, out->train->cost(), update_cost, options.machine, options.link);
  if (!fixed) {
    plan.kernels = out->train->kernels();
    for (const auto& more : {out->eval->kernels(), out->updates.front()->kernels()})
      for (const auto& [op, kernel] : more) plan.kernels.emplace(op, kernel);
  }
  return std::shared_ptr<const Prepared>(out);
}

}  // namespace trireme::train
