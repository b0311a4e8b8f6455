#include "trireme/engine/replica.h"

#include <algorithm>
#include <cmath>

#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/comm/host_ops.h"
#include "trireme/engine/stage/stage_evaluator.h"
#include "trireme/engine/steps.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/job/job_parts.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/coded_buckets.h"
#include "trireme/prepare/meetings.h"
#include "trireme/prepare/own_update.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::engine {

using runtime::Task;

namespace {

constexpr std::uint32_t kEvalShards = 1U << 16;

}  // namespace

struct Replica::State {
  State(runtime::Runtime& r, comm::Group& g, const job::Job& j, std::shared_ptr<const prepare::Prepared> p,
        std::shared_ptr<const data::Dataset> d, ReplicaLinks l)
      : rt(r),
        group(g),
        job(j),
        links(std::move(l)),
        prepared(std::move(p)),
        data(std::move(d)),
        mesh(prepared->plan.mesh()) {}

  runtime::Runtime& rt;
  comm::Group& group;
  const job::Job& job;
  const ReplicaLinks links;
  const std::shared_ptr<const prepare::Prepared> prepared;
  const std::shared_ptr<const data::Dataset> data;
  const parallel::Mesh mesh;
  // Collectives and messages in graphs of evaluations, whose batches count as shards: several run at once.
  const std::unique_ptr<comm::HostOpTable> eval_ops = links.lines != nullptr
                                                          ? links.lines->make_host_ops(kEvalShards)
                                                          : comm::make_host_ops(group, kEvalShards);
  std::vector<collective::LeafRun> owners;  // of logical shards, per worker
  GpuSide gpu;
  StepTrace trace;
  std::unique_ptr<Weights> weights;
  std::shared_ptr<comm::GradientMemory> turns;  // of buckets; null: each has its own
  BucketSums sums;
  std::unique_ptr<agree::Agreement> rule;
  std::unique_ptr<Steps> steps;
  struct {
    std::unique_ptr<Evaluator> whole;
    std::unique_ptr<StageEvaluator> stages;  // instead of it, where the model is cut in its depth
    Tensor results;
  } judge;
  std::unique_ptr<WholeParameters> whole;  // null: in lock step they are equal on all ranks of the replica
  std::int64_t settled = 0;                // times

  const plan::Plan& plan() const { return prepared->plan; }
  // One set of weights for all workers, in lock step: each updates its part.
  bool shares() const { return !links.shared_weights.empty() && !links.leased; }
  collective::LeafRun own_run() const;
  struct Span {
    std::size_t bucket = 0, begin = 0, count = 0;  // elements
  };
  std::vector<Span> counted() const;  // what no rank of the replica before this one has
  // Those that hold what this rank does, by replica.
  comm::Group& peers() const { return links.lines != nullptr ? links.lines->data() : group; }
  comm::Group* stages() const { return links.lines != nullptr ? links.lines->stages() : nullptr; }
  std::int64_t num_batches(Part part) const {
    return judge.whole != nullptr ? judge.whole->num_batches(part) : judge.stages->num_batches(part);
  }
  BatchRange own_batches(std::int64_t batches) const;
  Task<Status> score(std::int64_t step, Part part, BatchRange own, std::span<float> results) const;

  Status make_model(const agree::AgreementRow& row);
  Status make_rule(const agree::AgreementRow& row);
  Status make_steps(const agree::AgreementRow& row);
  Status make_evaluator();
  Status make_results();
};

collective::LeafRun Replica::State::own_run() const {
  collective::LeafRun run = owners[static_cast<std::size_t>(mesh.replica_of(group.rank()))];
  if (links.leased) run.count = 1;  // of any unit
  return run;
}

Status Replica::State::make_model(const agree::AgreementRow& row) {
  // A traced step is waited for, kernel by kernel, and so are exchanges within the graph.
  const bool queued = plan().logical_shards == 1 && plan().tiles == 1 && links.device_sum == nullptr &&
                      job.train.trace_steps == 0;
  gpu = GpuSide::make(prepared->device, !links.one_batch, prepared->resident, queued);
  WeightsOptions options;
  options.shared = links.shared_weights;
  options.shared_states = links.shared_states;
  options.fills = !shares() || peers().rank() == 0;
  options.rank = group.rank();
  options.with_agreed = links.leased;
  TR_ASSIGN_OR_RETURN(weights, Weights::make(rt, *prepared, gpu, std::move(options)));
  BucketSumsOptions sum_options;
  sum_options.leased = row.pace != agree::Pace::kStep;
  sum_options.scattered = (shares() || plan().zero_level() > 0) && prepared->finite_check == nullptr;
  sum_options.device_sum = links.device_sum;
  sum_options.stages = stages();
  const std::int64_t in_turn =
      prepared->stages != nullptr ? prepared->stages->written_elems : prepared->places.num_elems;
  if (const std::int64_t elems = in_turn; elems > 0)
    sum_options.turns = turns = std::make_shared<comm::GradientMemory>(rt, peers(), elems);
  TR_ASSIGN_OR_RETURN(sums, make_sums(rt, peers(), job, *prepared, gpu, sum_options));
  return {};
}

Status Replica::State::make_rule(const agree::AgreementRow& row) {
  if (links.first_local != nullptr) {
    rule = links.first_local->rule().for_local_replica();
    return {};
  }
  agree::RuleContext with;
  with.rt = &rt;
  with.workers = &peers();
  with.worker = peers().rank();
  with.num_workers = peers().world();
  with.mail = links.mail;
  with.servers = links.servers;
  with.seed = static_cast<std::uint64_t>(job.train.seed);
  with.options = job::rule_options(job, prepared->sending);
  with.weights = weights->vectors();
  const plan::Slots slots{plan().buckets.size()};
  for (const plan::Bucket& b : plan().buckets) {
    const std::size_t place = with.buckets.size();
    agree::RuleBucket& own = with.buckets.emplace_back();
    own.parameter_elems = prepare::parameter_elems(b);
    own.coding = prepare::bucket_coding(job, prepared->sending, b);
    own.packing = prepare::packing_of(b, prepared->parameters, own.coding.least_elems);
    own.factored = !row.updates_here && b.sends_factors();
    own.sum = b.sum;
    own.change_slots = {slots.turns(slots.change(place)), slots.turns(slots.change_sizes(place))};
    own.mean_slot = slots.mean(place);
    own.settled_slot = slots.settled(place);
  }
  if (row.pace == agree::Pace::kStep)
    for (const auto& sum : sums) with.sums.push_back(sum.get());
  rule = row.make(with);
  return {};
}

Status Replica::State::make_steps(const agree::AgreementRow& row) {
  StepsOptions o;
  o.group = &group;
  o.lines = links.lines;
  o.job = &job;
  o.prepared = prepared.get();
  o.data = data;
  o.gpu = &gpu;
  o.weights = weights.get();
  o.sums = &sums;
  o.rule = rule.get();
  o.owners = &owners;
  o.trace = &trace;
  o.updates_here = row.updates_here;
  o.shared = shares();
  o.one_batch = links.one_batch;
  // Sums of the same numbers are the same; draws of encoders, and what is heard at any moment, are not.
  const bool equal = row.pace == agree::Pace::kStep ||
                     (row.pace == agree::Pace::kPeriod && prepared->sending.is(job::Sending::Kind::kDense));
  if (row.pace != agree::Pace::kStep && links.lines != nullptr && links.lines->model() != nullptr)
    whole = WholeParameters::make(rt, *links.lines->model(), *prepared);
  o.whole = equal ? nullptr : whole.get();
  TR_ASSIGN_OR_RETURN(steps, Steps::make(rt, std::move(o), own_run()));
  return {};
}

BatchRange Replica::State::own_batches(std::int64_t batches) const {
  const int replica = mesh.replica_of(group.rank()), replicas = mesh.num_replicas();
  if (judge.whole != nullptr) return batches_of_replica(prepared->eval->graph(), batches, replica, replicas);
  return {batches * replica / replicas, batches * (replica + 1) / replicas};
}

Task<Status> Replica::State::score(std::int64_t step, Part part, BatchRange own,
                                   std::span<float> results) const {
  if (judge.whole != nullptr) co_return co_await judge.whole->run(part, own.begin, own.end, results);
  co_return co_await judge.stages->run(step, part, own, results);
}

Status Replica::State::make_evaluator() {
  if (prepared->stages != nullptr) {
    StageEvaluatorOptions with;
    with.prepared = prepared.get();
    with.variables = &weights->judged();
    with.data = data;
    with.line = stages();
    if (steps->gathers().divides_parameters()) with.gathers = &steps->gathers();
    with.host_ops = eval_ops->table();
    TR_ASSIGN_OR_RETURN(judge.stages, StageEvaluator::make(rt, std::move(with)));
    return make_results();
  }
  EvaluatorOptions options;
  options.input = prepared->input;
  options.graph = prepared->eval;
  options.batch = prepared->eval_batch;
  options.variables = &weights->judged();
  options.data = data;
  options.slots = std::max(1, rt.compute_threads() / std::max(1, plan().shard_threads));
  if (prepared->device != nullptr) options.slots = 1;
  options.mirror = gpu.mirror.get();
  options.arena = gpu.arena.get();
  options.host_ops = eval_ops->table();
  options.tile = prepared->tile;
  TR_ASSIGN_OR_RETURN(judge.whole, Evaluator::make(rt, std::move(options)));
  return make_results();
}

Status Replica::State::make_results() {
  const std::int64_t most = std::max(num_batches(Part::kTest), num_batches(Part::kValidation));
  Device& device = rt.is_phantom() ? phantom_device() : cpu_device();
  TR_ASSIGN_OR_RETURN(judge.results, allocate_zeros(device, {DType::kF32, {2 * most}}));
  return {};
}

Replica::Replica(std::unique_ptr<State> state) : state_(std::move(state)) {}
Replica::~Replica() = default;

Result<std::unique_ptr<Replica>> Replica::make(runtime::Runtime& rt, comm::Group& group, const job::Job& job,
                                               std::shared_ptr<const prepare::Prepared> prepared,
                                               std::shared_ptr<const data::Dataset> data,
                                               ReplicaLinks links) {
  auto state =
      std::make_unique<State>(rt, group, job, std::move(prepared), std::move(data), std::move(links));
  state->owners = state->plan().owners;
  state->trace.rt = &rt;
  if (state->prepared->stages == nullptr)
    TR_RETURN_IF_ERROR(
        prepare::check_meetings(state->prepared->train->graph(), state->plan(), state->owners));
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* row, agree::find_agreement(state->plan().agreement));
  TR_RETURN_IF_ERROR(state->make_model(*row));
  TR_RETURN_IF_ERROR(state->make_rule(*row));
  TR_RETURN_IF_ERROR(state->make_steps(*row));
  TR_RETURN_IF_ERROR(state->make_evaluator());
  return std::unique_ptr<Replica>(new Replica(std::move(state)));
}

Status Replica::reassign(std::vector<collective::LeafRun> owners, std::int64_t first, std::int64_t end) {
  if (state_->prepared->stages == nullptr)
    TR_RETURN_IF_ERROR(prepare::check_meetings(state_->prepared->train->graph(), state_->plan(), owners));
  state_->owners = std::move(owners);
  TR_RETURN_IF_ERROR(state_->steps->take_shards(state_->own_run()));
  start_feed(first, end);
  return {};
}

Task<void> Replica::clear() {
  if (state_->rt.is_phantom() || state_->gpu.mirror != nullptr) co_return;
  for (const auto& sum : state_->sums) co_await agree::clear(state_->rt, sum->memory(0));
}

// What encoders on a GPU keep is then where checkpoints look for it.
Task<Result<std::vector<StepResult>>> Replica::drain() {
  TR_CO_RETURN_IF_ERROR(co_await state_->steps->conductor().wait_for_all());
  TR_CO_RETURN_IF_ERROR(co_await state_->gpu.wait_for_queue(state_->rt));
  for (const auto& sum : state_->sums) TR_CO_RETURN_IF_ERROR(sum->fetch_state());
  co_return co_await state_->steps->late_results();
}

Task<Status> Replica::settle() {
  State& p = *state_;
  TR_CO_RETURN_IF_ERROR(co_await p.rule->settle(p.weights->agreed()));
  if (p.whole == nullptr) co_return Status();
  const std::vector<Tensor>& agreed = p.weights->agreed();
  co_return co_await p.whole->take_over(agreed, plan::kSlotSpeeds, p.settled++);
}

std::vector<Replica::State::Span> Replica::State::counted() const {
  std::vector<Span> parts;
  for (std::size_t b = 0; b < weights->vectors().size(); ++b) {
    if (prepared->tile == 0) {
      parts.push_back({b, 0, static_cast<std::size_t>(weights->vectors()[b].shape().num_elems())});
      continue;
    }
    const plan::Bucket& bucket = plan().buckets[b];
    for (const model::Parameter& parameter : prepared->parameters)
      for (std::size_t i = 0; i < bucket.parameters.size(); ++i)
        if (bucket.parameters[i] == parameter.name && prepared->wholes.contains(parameter.name))
          parts.push_back({b, static_cast<std::size_t>(bucket.offsets[i]),
                           static_cast<std::size_t>(parameter.type.shape.num_elems())});
  }
  return parts;
}

Task<ModelDistance> Replica::distance() {
  State& p = *state_;
  ModelDistance out;
  for (const State::Span part : p.counted()) {
    const Tensor mine = p.weights->vectors()[part.bucket], ours = p.weights->agreed()[part.bucket];
    const auto n = static_cast<double>(part.count);
    const cost::OpCost work{.flops = 4 * n, .bytes = 8 * n};
    runtime::ComputeFn sum = [&out, mine, ours, part](runtime::ComputeContext&) {
      const std::span<const float> a = mine.values<float>().subspan(part.begin, part.count),
                                   b = ours.values<float>().subspan(part.begin, part.count);
      for (std::size_t k = 0; k < a.size(); ++k) {
        const double d = static_cast<double>(a[k]) - static_cast<double>(b[k]);
        out.apart += d * d;
        out.length += static_cast<double>(b[k]) * static_cast<double>(b[k]);
      }
    };
    co_await p.rt.compute(work, std::move(sum), 1, "drift");
  }
  co_return out;
}

Task<Result<StepOutput>> Replica::run_step(StepInput input) { return state_->steps->run(input); }
Task<Result<StepOutput>> Replica::run_unit(StepInput input, std::span<const prepare::BatchTensors> batch) {
  return state_->steps->run_unit(input, batch);
}

Task<Result<EvalOutput>> Replica::evaluate(std::int64_t step, Part part) {
  State& p = *state_;
  const std::int64_t count = range_of(*p.data, part).count, batches = p.num_batches(part);
  if (count == 0) co_return EvalOutput{};
  const TensorType type{DType::kF32, {2 * batches}};
  const Tensor results(p.judge.results.buffer(), type, 0);
  std::span<float> values;
  if (!p.rt.is_phantom()) {
    values = results.values<float>();
    std::fill(values.begin(), values.end(), 0.0F);
  }
  const BatchRange own = p.own_batches(batches);
  WeightGathers& gathers = p.steps->gathers();
  // Room for whole parameters is where gradients were.
  const bool in_segments = p.judge.stages != nullptr;  // they gather what they read
  const bool makes_room = gathers.divides_parameters() && p.turns != nullptr && !in_segments;
  if (makes_room) p.turns->give_back();
  if (!in_segments) TR_CO_RETURN_IF_ERROR(co_await gathers.gather_all(static_cast<std::uint32_t>(step)));
  Status status = co_await p.score(step, part, own, values);
  if (!in_segments) gathers.give_back_all();
  if (makes_room) p.turns->take_again();
  if (!status.ok()) co_return status;
  // The stage that has the scores is the only one to have written them.
  if (p.stages() == nullptr && !p.mesh.speaks(p.group.rank())) std::fill(values.begin(), values.end(), 0.0F);
  // Every entry is of one rank and zero elsewhere, so any order of summation gives the same bits.
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

std::int64_t Replica::num_eval_batches(Part part) const { return state_->num_batches(part); }
Task<Status> Replica::score(Part part, std::int64_t begin, std::int64_t end, std::span<float> results) {
  return state_->judge.whole->run(part, begin, end, results);
}

bool Replica::shares_weights() const { return state_->shares(); }
bool Replica::is_shared(const Tensor& tensor) const {
  return state_->shares() && state_->weights->is_shared(tensor);
}
Task<Status> Replica::initialise(std::uint64_t seed) { return state_->weights->initialise(seed); }
Status Replica::add_to_next(const std::map<std::string, Tensor>& kept) {
  state_->steps->conductor().add_to_next(kept);
  return {};
}
const std::vector<collective::LeafRun>& Replica::owners() const { return state_->owners; }
const parallel::Mesh& Replica::mesh() const { return state_->mesh; }
comm::NamedState Replica::shard_state() const {
  return state_->links.leased ? comm::NamedState() : engine::shard_state(state_->sums);
}
int Replica::shards_at_once() const {
  return std::max(1, state_->rt.compute_threads() / std::max(1, state_->plan().shard_threads));
}
void Replica::start_feed(std::int64_t first, std::int64_t end) { state_->steps->feed().start(first, end); }
void Replica::start_feed(LeaseSource source) { state_->steps->feed().start(std::move(source)); }
Task<Result<LeasedBatch>> Replica::next_unit() { return state_->steps->feed().next_leased(); }
void Replica::release() { state_->steps->feed().release(); }
agree::Agreement& Replica::rule() { return *state_->rule; }
Result<io::NamedTensors> Replica::parameters() const { return state_->weights->named(false); }
Result<io::NamedTensors> Replica::state() const { return state_->weights->named(true); }
Result<io::NamedTensors> Replica::saved(bool all) const {
  const plan::Plan& plan = state_->plan();
  const bool cut =
      plan.zero_level() > 0 || std::any_of(plan.layouts.begin(), plan.layouts.end(), [](const auto& of) {
        return std::any_of(of.second.axes.begin(), of.second.axes.end(),
                           [](const auto& a) { return a.kind != parallel::AxisLayout::Kind::kReplicate; });
      });
  return cut || state_->group.rank() == 0 ? state_->weights->named(all) : state_->weights->places(all);
}
Result<io::NamedTensors> Replica::agreed() const { return state_->weights->named_agreed(); }
std::span<const Tensor> Replica::weights() const { return state_->weights->vectors(); }
Status Replica::publish() { return state_->weights->publish(); }
const job::SampleOrder& Replica::order() const { return state_->steps->feed().order(); }
std::vector<exec::Profile> Replica::profiles() const { return state_->steps->runs().profiles(); }
exec::DeviceQueue* Replica::gpu_queue() const { return state_->gpu.queue.get(); }
void Replica::trace_to(std::vector<StepSpan>* spans) { state_->trace.spans = spans; }

Result<HeldState> Replica::held(const io::NamedTensors& tensors) const {
  return state_->weights->held(tensors, [this](const Tensor& t) { return is_shared(t); });
}

HeldState held_shards(const Replica& replica, const comm::Group& group,
                      const std::vector<RowsOfStage>& of_stages) {
  return hold_rows(replica.shard_state(), replica.owners(), replica.mesh(), group.rank(), of_stages);
}

}  // namespace trireme::engine
