#include "trireme/engine/replica.h"

#include <algorithm>

#include "trireme/engine/replica_parts.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/coded_buckets.h"
#include "trireme/prepare/own_update.h"

namespace trireme::engine {

using runtime::Task;

Status Replica::Parts::make_feed() {
  BatchFeedOptions options;
  options.input = prepared->input;
  options.data = data;
  TR_ASSIGN_OR_RETURN(options.order, job::SampleOrder::make(*data, job, plan().logical_shards,
                                                            !prepared->statistics.empty()));
  options.shards = owners[static_cast<std::size_t>(group.rank())];
  if (links.leased) options.shards.count = 1;  // of any unit
  options.seed = static_cast<std::uint64_t>(job.train.seed);
  options.depth = static_cast<int>(job.data.prefetch);
  options.ahead = ahead;
  TR_ASSIGN_OR_RETURN(feed, BatchFeed::make(rt, std::move(options)));
  return {};
}

Status Replica::Parts::make_evaluator() {
  EvaluatorOptions options;
  options.input = prepared->input;
  options.graph = prepared->eval;
  options.batch = prepared->eval_batch;
  options.variables = links.leased ? &agreed_variables : &variables;
  options.data = data;
  options.slots = std::max(1, rt.compute_threads() / std::max(1, plan().shard_threads));
  if (prepared->device != nullptr) options.slots = 1;
  options.mirror = mirror.get();
  options.arena = arena.get();
  TR_ASSIGN_OR_RETURN(evaluator, Evaluator::make(rt, std::move(options)));
  const std::int64_t most =
      std::max(evaluator->num_batches(Part::kTest), evaluator->num_batches(Part::kValidation));
  TR_ASSIGN_OR_RETURN(eval_results, allocate_zeros(device(), {DType::kF32, {2 * most}}));
  return {};
}

Result<io::NamedTensors> Replica::Parts::named(const exec::Variables& from, bool with_state) const {
  io::NamedTensors out;
  Status copied;
  if (gpu_queue != nullptr) copied = gpu_queue->wait();  // mostly it has: drain()
  const auto add = [&](const std::string& name) {
    if (!copied.ok()) return;
    out.emplace_back(name, *from.get(name));
    if (mirror != nullptr) copied = mirror->download(out.back().second);
  };
  for (const auto* list : {&prepared->parameters, &prepared->frozen})
    for (const model::Parameter& p : *list) add(p.name);
  for (const model::Statistic& s : prepared->statistics) add(s.name);
  if (with_state) {
    for (const model::StateVariable& s : prepared->states)
      if (s.type.shape.num_elems() > 0) add(s.name);
    if (prepared->scale_update != nullptr) add(prepare::kLossScale), add(prepare::kGoodSteps);
  }
  if (!copied.ok())
    return copied.with_prefix(fmt::format(
        "the model could not be copied from GPU {} of rank {}: ", prepared->device->name(), group.rank()));
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

Replica::Replica(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Replica::~Replica() = default;

Result<std::unique_ptr<Replica>> Replica::make(runtime::Runtime& rt, comm::Group& group, const job::Job& job,
                                               std::shared_ptr<const prepare::Prepared> prepared,
                                               std::shared_ptr<const data::Dataset> data,
                                               ReplicaLinks links) {
  auto parts =
      std::make_unique<Parts>(rt, group, job, std::move(prepared), std::move(data), std::move(links));
  const plan::Plan& plan = parts->plan();
  parts->owners = plan.owners;
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* rule, agree::find_agreement(plan.agreement));
  agree::RuleContext with;
  with.rt = &rt;
  with.workers = &group;
  with.worker = group.rank();
  with.num_workers = group.world();
  parts->updates_here = rule->updates_here;
  TR_RETURN_IF_ERROR(parts->make_variables());
  TR_RETURN_IF_ERROR(parts->make_mirror());
  TR_RETURN_IF_ERROR(parts->make_agreed());
  with.mail = parts->links.mail;
  with.servers = parts->links.servers;
  with.seed = static_cast<std::uint64_t>(job.train.seed);
  with.options = job::rule_options(job);
  with.options.reducer = plan.reducer;
  const bool lock_step = rule->pace == agree::Pace::kStep;
  with.weights = parts->weights;
  with.num_shards = plan.logical_shards;
  for (const plan::Bucket& b : plan.buckets) {
    with.parameter_elems.push_back(prepare::parameter_elems(b));
    agree::RuleOptions own = prepare::bucket_options(job, plan, b);
    with.packings.push_back(prepare::packing_of(b, parts->prepared->parameters, own.coding.least_elems));
    with.factored.push_back(parts->pushes_factors(with.factored.size()));
    with.matrices.push_back(prepare::matrices_of(b, parts->prepared->parameters, own));
    with.bucket_options.push_back(std::move(own));
  }
  Replica* first = parts->links.first_local;
  parts->agreement = first != nullptr ? first->rule().for_local_replica() : rule->make(with);
  if (lock_step)
    TR_RETURN_IF_ERROR(parts->agreement->take_shards(plan.owners[static_cast<std::size_t>(group.rank())]));
  TR_ASSIGN_OR_RETURN(parts->factors, prepare::FactorExchange::make(rt, group, parts->prepared));
  TR_RETURN_IF_ERROR(parts->make_shards());
  TR_RETURN_IF_ERROR(parts->make_updates());
  TR_RETURN_IF_ERROR(parts->make_evaluator());
  TR_RETURN_IF_ERROR(parts->make_feed());
  return std::unique_ptr<Replica>(new Replica(std::move(parts)));
}

Status Replica::add_to_next(const std::map<std::string, Tensor>& kept) {
  const auto& buckets = parts_->plan().buckets;
  parts_->once.resize(buckets.size());
  for (std::size_t b = 0; b < buckets.size(); ++b)
    for (std::size_t p = 0; p < buckets[b].parameters.size(); ++p)
      if (const auto own = kept.find(buckets[b].parameters[p]); own != kept.end())
        parts_->once[b][buckets[b].offsets[p]] = own->second;
  return {};
}

bool Replica::shares_weights() const { return parts_->shares(); }
bool Replica::is_shared(const Tensor& tensor) const {
  if (!parts_->shares()) return false;
  const auto holds = [&](const Tensor& t) {
    const std::byte *first = t.is_null() ? nullptr : t.raw(), *at = tensor.raw();
    return first != nullptr && at >= first && at < first + t.type().num_bytes();
  };
  return holds(parts_->links.shared_states) ||
         std::any_of(parts_->weights.begin(), parts_->weights.end(), holds);
}

Status Replica::reassign(std::vector<collective::LeafRun> owners, std::int64_t first, std::int64_t end) {
  parts_->owners = std::move(owners);
  TR_RETURN_IF_ERROR(
      parts_->agreement->take_shards(parts_->owners[static_cast<std::size_t>(parts_->group.rank())]));
  TR_RETURN_IF_ERROR(parts_->make_shards());
  TR_RETURN_IF_ERROR(parts_->make_feed());
  start_feed(first, end);
  return {};
}
const std::vector<collective::LeafRun>& Replica::owners() const { return parts_->owners; }
int Replica::shards_at_once() const {
  return std::max(1, parts_->rt.compute_threads() / std::max(1, parts_->plan().shard_threads));
}

void Replica::start_feed(std::int64_t first, std::int64_t end) { parts_->feed->start(first, end); }

Task<Result<EvalOutput>> Replica::evaluate(std::int64_t step, Part part) {
  Parts& p = *parts_;
  const std::int64_t count = range_of(*p.data, part).count, batches = p.evaluator->num_batches(part);
  if (count == 0) co_return EvalOutput{};
  const TensorType type{DType::kF32, {2 * batches}};
  const Tensor results(p.eval_results.buffer(), type, 0);
  std::span<float> values;
  if (!p.rt.is_phantom()) {
    values = results.values<float>();
    std::fill(values.begin(), values.end(), 0.0F);
  }
  const std::int64_t begin = batches * p.group.rank() / p.group.world(),
                     end = batches * (p.group.rank() + 1) / p.group.world();
  Status status = co_await p.evaluator->run(part, begin, end, values);
  if (!status.ok()) co_return status;
  // Every entry is written by one rank and zero elsewhere, so any order of summation gives the same bits.
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step);
  call.slot = part == Part::kTest ? plan::kSlotEval : plan::kSlotValidate;
  call.label = "evaluation";
  call.algorithm = "ring";
  status = co_await p.group.allreduce(std::move(call), results);
  if (!status.ok()) co_return status;
  EvalOutput out;
  for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
    out.loss += values[i];
    out.accuracy += values[i + 1];
  }
  out.loss /= static_cast<double>(count);
  out.accuracy /= static_cast<double>(count);
  co_return out;
}

Result<io::NamedTensors> Replica::parameters() const { return parts_->named(parts_->variables, false); }
Result<io::NamedTensors> Replica::state() const { return parts_->named(parts_->variables, true); }
Status Replica::publish() { return parts_->mirror != nullptr ? parts_->mirror->upload_all() : Status(); }
const job::SampleOrder& Replica::order() const { return parts_->feed->order(); }
std::vector<exec::Profile> Replica::profiles() const {
  std::vector<exec::Profile> all;
  for (const Shard& shard : parts_->shards)
    if (Result<exec::Profile> p = shard.execution->profile(); p.ok()) all.push_back(std::move(*p));
  return all;
}
exec::DeviceQueue* Replica::gpu_queue() const { return parts_->gpu_queue.get(); }
void Replica::trace_to(std::vector<StepSpan>* spans) { parts_->spans = spans; }

}  // namespace trireme::engine
