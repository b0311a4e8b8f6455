#include "trireme/train/worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/comm/group.h"
#include "trireme/data/leases.h"
#include "trireme/io/checkpoint_writer.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/train/balance.h"
#include "trireme/train/choose_again.h"
#include "trireme/train/device_exchange.h"
#include "trireme/train/factors.h"
#include "trireme/train/first_broken.h"
#include "trireme/train/job_parts.h"
#include "trireme/train/leased_worker.h"
#include "trireme/train/memory_estimate.h"
#include "trireme/train/metrics.h"
#include "trireme/train/replica.h"
#include "trireme/train/replica_check.h"
#include "trireme/train/shard_state.h"
#include "trireme/train/share_weights.h"
#include "trireme/train/slots.h"
#include "trireme/train/start.h"
#include "trireme/train/trace.h"
#include "trireme/train/worker_shares.h"

namespace trireme::train {
namespace {

using runtime::Task;

// One rank's run. Rank 0 also keeps the lease book, the metrics and the checkpoints.
class Worker {
 public:
  Worker(RankContext& context, comm::Group& group, StartState start, Job asked, KeepUntilLeft& keep)
      : c_(context),
        asked_(std::move(asked)),
        rt_(*context.rt),
        group_(group),
        keep_(keep),
        start_(std::move(start)),
        schedule_(schedule_of(context.job)),
        leases_(start_.prepared->plan.logical_shards),
        metrics_(rt_, context.run_dir, context.job.train.events),
        writer_(rt_, context.run_dir + "/checkpoints") {}

  Task<Result<Summary>> run();

 private:
  bool chief() const { return group_.rank() == 0; }
  bool writes() const { return chief() && !c_.run_dir.empty(); }
  const plan::Plan& plan() const { return start_.prepared->plan; }

  Task<Status> share_model(ReplicaLinks& links);
  Task<Status> begin();
  Task<Status> restore();
  Task<Status> loop();
  Task<Status> one_step();
  Task<Status> drain();
  bool balances() const;
  Task<Status> balance();
  bool looks_at_codecs() const;
  void begin_look();
  Task<Status> look_at_codecs();
  Task<Status> change_codecs(CodecChange change);
  Task<Status> evaluate(bool at_end, bool logged = true);
  Task<Status> checkpoint();
  Task<Status> write_trace();
  Task<Status> finish();
  StepInput next_step() const;
  void count(const StepInput& input, const StepOutput& out);
  Status grant_leases();
  Status finish_leases();
  WorkerShare own_share() const;
  Summary summarise() const;
  bool ended() const { return at_.batches >= total_batches_ || stopped_ || at_.reached_target; }
  bool due(std::int64_t every) const;
  std::int64_t total_samples() const {
    return std::max<std::int64_t>(1, total_batches_ * c_.job.train.batch);
  }

  RankContext& c_;
  const Job asked_;  // with codec "auto" where one was chosen
  runtime::Runtime& rt_;
  comm::Group& group_;
  KeepUntilLeft& keep_;
  StartState start_;
  model::Schedule schedule_;
  data::LeaseBook leases_;
  MetricsLog metrics_;
  io::CheckpointWriter writer_;
  std::shared_ptr<comm::DeviceSum> device_sum_;  // null: gradients are added on the host, or not at all
  std::unique_ptr<Replica> replica_;
  Position at_;  // what is completed
  std::int64_t total_batches_ = 0, per_epoch_ = 1;
  std::int64_t measured_samples_ = 0, measured_steps_ = 0;
  std::int64_t own_shard_samples_ = 0;  // samples of each step times the shards that this rank had
  std::int64_t epoch_samples_ = 0;
  double epoch_loss_ = 0, epoch_correct_ = 0;
  StepOutput totals_;
  TimeNs balanced_ns_ = 0;  // computed before the last look at the speeds
  CodecKeeper keeper_;
  struct {
    std::int64_t steps = 0;
    TimeNs compute_ns = 0, stepped_ns = 0;
  } looked_;  // when the codecs were last looked at
  Json codec_changes_ = Json::array();
  bool changed_ = false;                 // since the last checkpoint
  std::int64_t look_from_ = kWarmSteps;  // before, some wait for others that are not ready yet
  EvalOutput test_, validation_;
  TimeNs started_ = 0, train_ns_ = 0;
  bool stopped_ = false;
  bool tested_ = false;  // test_ is known
  std::vector<StepSpan> spans_;
  std::vector<WorkerShare> shares_;  // of all workers, at the end
  bool traced_ = false;
};

Task<Status> Worker::restore() {
  const IsShared is_shared = [this](const Tensor& t) { return replica_->is_shared(t); };
  if (start_.resumed) {
    TR_CO_RETURN_IF_ERROR(co_await restore_state(group_, replica_->state(), start_.restored, is_shared));
    at_ = start_.at;
    TR_CO_RETURN_IF_ERROR(co_await scatter_shard_state(group_, replica_->rule(), replica_->owners(),
                                                       start_.restored, at_.steps, ShardMove::kRestore,
                                                       plan().chosen_at > 0));
    TR_CO_ASSIGN_OR_RETURN(leases_, data::LeaseBook::from_cursor(start_.cursor));
  } else if (!c_.job.model.init_from.empty() && !rt_.is_phantom()) {
    TR_CO_RETURN_IF_ERROR(co_await inherit_state(group_, c_.job.model.init_from, start_.prepared->inherited,
                                                 replica_->parameters(), start_.restored, is_shared));
  }
  start_.restored.clear();
  TR_CO_RETURN_IF_ERROR(replica_->publish());
  if (!replica_->shares_weights()) co_return Status();
  comm::Call ready;  // rank 0 has written them
  ready.slot = kSlotSharedReady;
  ready.label = "shared weights";
  co_return co_await group_.barrier(std::move(ready));
}

// One set of weights and optimiser states for all workers of the host, where the plan has it so and they fit.
Task<Status> Worker::share_model(ReplicaLinks& links) {
  if (!plan().shared_weights || rt_.is_phantom()) co_return Status();
  auto weights = co_await share_weights(group_, plan());
  Result<Tensor> states = Tensor();
  if (weights.ok()) states = co_await share_states(group_, start_.prepared->states);
  const Status& failed = weights.ok() ? states.status() : weights.status();
  if (failed.code() == Code::kExhausted && c_.job.parallel.weights == "auto") co_return Status();
  TR_CO_RETURN_IF_ERROR(failed);
  links.shared_weights = std::move(*weights);
  links.shared_states = std::move(*states);
  co_return Status();
}

Task<Status> Worker::begin() {
  ReplicaLinks links;
  TR_CO_RETURN_IF_ERROR(co_await share_model(links));
  TR_CO_ASSIGN_OR_RETURN(device_sum_, co_await make_device_exchange(c_, group_, *start_.prepared));
  if (device_sum_ != nullptr) keep_.push_back(device_sum_->keep_mapped());
  links.device_sum = device_sum_;
  auto replica = Replica::make(rt_, group_, c_.job, start_.prepared, c_.data, std::move(links));
  if (!replica.ok()) co_return replica.status();
  replica_ = std::move(*replica);
  per_epoch_ = replica_->order().batches_per_epoch();
  total_batches_ = c_.job.train.steps > 0 ? c_.job.train.steps : c_.job.train.epochs * per_epoch_;
  replica_->initialise(static_cast<std::uint64_t>(c_.job.train.seed));
  TR_CO_RETURN_IF_ERROR(replica_->publish());
  TR_CO_RETURN_IF_ERROR(co_await restore());
  replica_->start_feed(at_.batches, total_batches_);
  if (chief() && c_.progress != nullptr) {
    Progress::Start start;
    start.run_dir = c_.run_dir;
    start.first_batch = at_.batches;
    start.first_step = at_.steps;
    start.total_batches = total_batches_;
    start.batches_per_epoch = per_epoch_;
    for (const auto* list : {&start_.prepared->parameters, &start_.prepared->frozen})
      for (const auto& p : *list) start.num_parameters += p.type.shape.num_elems();
    start.plan = &plan();
    start.task = start_.prepared->input.task;
    c_.progress->on_start(start);
  }
  if (writes()) co_return co_await metrics_.open(at_.steps);
  co_return Status();
}

// The coordinator's book: every rank's run of shards is out while the step runs, and done when the exchange
// has proved that everybody finished.
Status Worker::grant_leases() {
  if (!chief()) return {};
  for (int r = 0; r < group_.world(); ++r) {
    const collective::LeafRun run = replica_->owners()[static_cast<std::size_t>(r)];
    TR_RETURN_IF_ERROR(leases_.grant(at_.steps, {run.first, run.count}, r));
  }
  return {};
}

Status Worker::finish_leases() {
  if (!chief()) return {};
  for (int r = 0; r < group_.world(); ++r) {
    const collective::LeafRun run = replica_->owners()[static_cast<std::size_t>(r)];
    TR_RETURN_IF_ERROR(leases_.finish(at_.steps, {run.first, run.count}, r));
  }
  return {};
}

// A step ends with its epoch, however far the batch has grown.
StepInput Worker::next_step() const {
  const model::SchedulePoint point = model::schedule_at(schedule_, at_.samples, total_samples());
  StepInput input;
  input.step = at_.steps;
  input.first_batch = at_.batches;
  input.num_batches =
      std::min({point.batch_multiplier, per_epoch_ - at_.batches % per_epoch_, total_batches_ - at_.batches});
  for (std::int64_t i = 0; i < input.num_batches; ++i)
    input.num_samples += replica_->order().samples_in_batch((at_.batches + i) % per_epoch_);
  input.applied = at_.steps - at_.skipped;
  input.learning_rate = static_cast<float>(point.lr);
  input.velocity_factor =
      static_cast<float>(model::velocity_factor(schedule_, at_.samples_before, at_.samples, total_samples()));
  input.stop_wanted = c_.stop.cancelled();
  return input;
}

void Worker::count(const StepInput& input, const StepOutput& out) {
  if (out.applied) at_.samples_before = at_.samples;
  at_.samples += input.num_samples;
  at_.batches += input.num_batches;
  ++at_.steps;
  if (!out.applied) ++at_.skipped;
  ++measured_steps_;
  measured_samples_ += input.num_samples;
  own_shard_samples_ += input.num_samples * replica_->owners()[static_cast<std::size_t>(group_.rank())].count;
  totals_.compute_ns += out.compute_ns;
  totals_.exposed_ns += out.exposed_ns;
  totals_.data_ns += out.data_ns;
  stopped_ = out.stop;
  if (!out.applied) return;  // its loss may be no number
  epoch_samples_ += input.num_samples;
  epoch_loss_ += out.loss * static_cast<double>(input.num_samples);
  epoch_correct_ += out.correct;
}

Task<Status> Worker::one_step() {
  const StepInput input = next_step();
  replica_->trace_to(measured_steps_ < c_.job.train.trace_steps ? &spans_ : nullptr);
  TR_CO_RETURN_IF_ERROR(grant_leases());
  const TimeNs before = rt_.now();
  Result<StepOutput> result = co_await replica_->run_step(input);
  if (!result.ok()) co_return result.status();
  const StepOutput& out = *result;
  train_ns_ += rt_.now() - before;
  TR_CO_RETURN_IF_ERROR(finish_leases());
  if (out.applied && !std::isfinite(out.loss))
    co_return error(Code::kInternal,
                    "[train] the sum of the losses over all shards is not a number at step {}; try a smaller "
                    "train.optimizer.lr (the rate here was {})",
                    input.step + 1, input.learning_rate);
  count(input, out);
  if (!chief()) co_return Status();
  MetricsLog::Step row;
  row.step = at_.steps;
  row.epoch = input.first_batch / per_epoch_;
  row.loss = out.loss;
  row.accuracy = input.num_samples > 0 ? out.correct / static_cast<double>(input.num_samples) : 0;
  row.lr = input.learning_rate;
  row.samples = input.num_samples;
  row.grad_norm = out.grad_norm;
  row.skipped = !out.applied;
  row.since_start = rt_.now() - started_;
  metrics_.add_step(row);
  if (c_.progress != nullptr)
    c_.progress->on_step(
        {at_.steps, at_.batches, row.epoch, row.loss, row.accuracy, row.samples, row.skipped, rt_.now()});
  co_return Status();
}

// Epochs are judged by the validation samples where there are some, the end by the test samples.
Task<Status> Worker::evaluate(bool at_end, bool logged) {
  const bool validates = c_.data->num_validation > 0;
  const std::int64_t epoch = (at_.batches + per_epoch_ - 1) / per_epoch_;
  std::vector<Part> parts{validates ? Part::kValidation : Part::kTest};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Result<EvalOutput> result = co_await replica_->evaluate(at_.steps, parts[i]);
    if (!result.ok()) co_return result.status();
    (parts[i] == Part::kTest ? test_ : validation_) = *result;
    tested_ = tested_ || parts[i] == Part::kTest;
    const double target = c_.job.train.target_accuracy;
    if (i == 0 && target > 0 && result->accuracy >= target) at_.reached_target = true;
    const bool last = at_end || at_.reached_target;
    if (i == 0 && validates && last) parts.push_back(Part::kTest);
    if (!chief()) continue;
    if (logged) metrics_.add_evaluation({at_.steps, epoch, parts[i], result->loss, result->accuracy});
    if (c_.progress != nullptr)
      c_.progress->on_evaluation({at_.steps, epoch, parts[i], result->loss, result->accuracy});
  }
  at_.owes_evaluation = false;
  co_return Status();
}

// `every` steps, or at the end of an epoch.
bool Worker::due(std::int64_t every) const {
  return every > 0 ? at_.steps % every == 0 : at_.batches % per_epoch_ == 0;
}

Task<Status> Worker::checkpoint() {
  io::NamedTensors of_shards;
  if (!c_.run_dir.empty()) {
    TR_CO_ASSIGN_OR_RETURN(
        of_shards, co_await gather_shard_state(group_, replica_->rule(), replica_->owners(), at_.steps,
                                               ShardMove::kCheckpoint));
  }
  if (!writes()) co_return Status();
  // A gradient may break while the loss is still a number: what cannot go on must not replace what can.
  const std::string broken = co_await find_not_finite(rt_, replica_->parameters());
  if (!broken.empty())
    co_return error(Code::kInternal,
                    "[train] '{}' holds an infinity or NaN after step {}, so no checkpoint is written; try a "
                    "smaller train.optimizer.lr, train.optimizer.clip_norm = 1.0, or train.nan = \"skip\"",
                    broken, at_.steps);
  TR_CO_RETURN_IF_ERROR(co_await metrics_.flush());
  io::Checkpoint saved;
  saved.step = at_.steps;
  saved.state = to_json(at_);
  saved.state["seed"] = c_.job.train.seed;
  saved.state["job_sha256"] = plan().job_sha256;
  saved.state["cursor"] = leases_.cursor();
  saved.tensors = replica_->state();
  for (auto& named : of_shards) saved.tensors.push_back(std::move(named));
  TR_CO_RETURN_IF_ERROR(co_await writer_.begin(std::move(saved)));
  if (c_.progress != nullptr) c_.progress->on_checkpoint(at_.steps);
  co_return Status();
}

// The end of what is under way belongs to the steps before.
Task<Status> Worker::drain() {
  const TimeNs before = rt_.now();
  TR_CO_RETURN_IF_ERROR(co_await replica_->drain());
  train_ns_ += rt_.now() - before;
  totals_.exposed_ns += rt_.now() - before;
  co_return Status();
}

// Whether shards could be given to others, now.
bool Worker::balances() const {
  return group_.world() > 1 && plan().logical_shards > group_.world() && device_sum_ == nullptr && !ended() &&
         measured_steps_ > 0 && measured_steps_ % kBalanceSteps == 0;
}

Task<Status> Worker::balance() {
  const std::int32_t count = replica_->owners()[static_cast<std::size_t>(group_.rank())].count;
  plan::WorkerSpeed own;
  own.at_once = replica_->shards_at_once();
  const std::int32_t waves = (count + own.at_once - 1) / own.at_once;
  own.wave_seconds = to_seconds(totals_.compute_ns - balanced_ns_) / (waves * kBalanceSteps);
  balanced_ns_ = totals_.compute_ns;
  auto better =
      co_await better_owners(rt_, group_, at_.steps, own, replica_->owners(), plan().logical_shards);
  if (!better.ok()) co_return better.status();
  if (better->empty()) co_return Status();
  TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors of_shards,
                         co_await gather_shard_state(group_, replica_->rule(), replica_->owners(), at_.steps,
                                                     ShardMove::kBalance));
  TR_CO_RETURN_IF_ERROR(replica_->reassign(std::move(*better), at_.batches, total_batches_));
  co_return co_await scatter_shard_state(group_, replica_->rule(), replica_->owners(), of_shards, at_.steps,
                                         ShardMove::kBalance);
}

// Now and then, whether gradients should travel otherwise.
bool Worker::looks_at_codecs() const {
  return !rt_.is_phantom() && start_.prepared->device == nullptr &&
         chooses_again(asked_, plan(), group_.world()) && !ended() && measured_steps_ > 0 &&
         measured_steps_ % kLookSteps == 0;
}

void Worker::begin_look() {
  looked_.steps = measured_steps_;
  looked_.compute_ns = totals_.compute_ns;
  looked_.stepped_ns = train_ns_ - totals_.data_ns;
}

Task<Status> Worker::look_at_codecs() {
  const auto steps = static_cast<double>(measured_steps_ - looked_.steps);
  CodecLook look;
  look.step = at_.steps;
  look.own.compute_seconds = to_seconds(totals_.compute_ns - looked_.compute_ns) / steps;
  const TimeNs stepped_ns = train_ns_ - totals_.data_ns;  // whoever waits for samples waits for no link
  look.own.step_seconds = to_seconds(stepped_ns - looked_.stepped_ns) / steps;
  look.keeper = &keeper_;
  look.asked = &asked_;
  begin_look();
  auto change = co_await agree_on_codecs(c_, group_, start_.prepared, look);
  if (!change.ok()) co_return change.status();
  if (change->prepared == nullptr) co_return Status();
  co_return co_await change_codecs(std::move(*change));
}

// The model goes on in the buckets of another plan. What encoders kept back is part of the next update.
Task<Status> Worker::change_codecs(CodecChange change) {
  auto kept = co_await kept_back(group_, plan(), start_.prepared->parameters, replica_->rule().shard_state(),
                                 at_.steps);
  if (!kept.ok()) co_return kept.status();
  io::NamedTensors saved;
  for (const auto& [name, tensor] : replica_->state()) {
    TR_CO_ASSIGN_OR_RETURN(Tensor copy, Tensor::allocate(cpu_device(), tensor.type()));
    std::memcpy(copy.raw(), tensor.raw(), tensor.type().num_bytes());
    saved.emplace_back(name, std::move(copy));
  }
  codec_changes_.push_back({{"step", at_.steps},
                            {"from", plan().codec},
                            {"to", change.prepared->plan.codec},
                            {"why", change.why}});
  replica_.reset();
  start_.prepared = std::move(change.prepared);
  c_.job.parallel.codec = plan().codec;
  auto replica = Replica::make(rt_, group_, c_.job, start_.prepared, c_.data);
  if (!replica.ok()) co_return replica.status();
  replica_ = std::move(*replica);
  for (const auto& [name, tensor] : replica_->state())
    for (const auto& [from, copy] : saved)
      if (from == name) std::memcpy(tensor.raw(), copy.raw(), tensor.type().num_bytes());
  TR_CO_RETURN_IF_ERROR(replica_->publish());
  TR_CO_RETURN_IF_ERROR(replica_->add_to_next(*kept));
  replica_->start_feed(at_.batches, total_batches_);
  if (chief()) {
    rt_.log(
        fmt::format("from step {} on gradients travel by '{}': {}", at_.steps + 1, plan().codec, change.why));
    metrics_.add_codec(at_.steps, plan().codec, change.why);
  }
  if (writes()) {
    const std::string text = plan::to_json(plan()).dump(2) + "\n";
    TR_CO_RETURN_IF_ERROR(co_await rt_.files().write_atomic(c_.run_dir + "/plan.json", as_bytes(text)));
  }
  changed_ = true;
  look_from_ = measured_steps_ + kWarmSteps;
  co_return Status();
}

Task<Status> Worker::loop() {
  started_ = rt_.now();
  // It may end the run: nothing is trained beyond train.target_accuracy.
  if (at_.owes_evaluation) TR_CO_RETURN_IF_ERROR(co_await evaluate(false));
  while (!ended()) {
    if (at_.batches % per_epoch_ == 0) epoch_loss_ = epoch_correct_ = 0, epoch_samples_ = 0;
    TR_CO_RETURN_IF_ERROR(co_await one_step());
    if (measured_steps_ >= c_.job.train.trace_steps) TR_CO_RETURN_IF_ERROR(co_await write_trace());
    const bool at_end = at_.batches >= total_batches_;
    at_.owes_evaluation = due(c_.job.train.eval_steps) || at_end;
    const std::int64_t check_steps = c_.job.parallel.check_steps;
    const bool checks = check_steps > 0 && at_.steps % check_steps == 0 && group_.world() > 1;
    if (measured_steps_ == look_from_) begin_look();
    const bool looks = looks_at_codecs();
    if (checks || looks || balances() || at_.owes_evaluation || due(c_.job.train.checkpoint_steps) || ended())
      TR_CO_RETURN_IF_ERROR(co_await drain());
    if (balances()) TR_CO_RETURN_IF_ERROR(co_await balance());
    if (checks) TR_CO_RETURN_IF_ERROR(co_await check_replicas(rt_, group_, at_.steps, replica_->state()));
    if (at_.owes_evaluation && (!stopped_ || at_end)) TR_CO_RETURN_IF_ERROR(co_await evaluate(at_end));
    if (looks) TR_CO_RETURN_IF_ERROR(co_await look_at_codecs());
    // After a change too: residuals are those of the new plan.
    if (due(c_.job.train.checkpoint_steps) || ended() || std::exchange(changed_, false))
      TR_CO_RETURN_IF_ERROR(co_await checkpoint());
  }
  TR_CO_RETURN_IF_ERROR(co_await write_trace());
  // A run resumed after its last step has nothing left to do but to be graded; the log has its grades.
  const bool whole = at_.batches >= total_batches_ || at_.reached_target;
  if (whole && !tested_) TR_CO_RETURN_IF_ERROR(co_await evaluate(true, /*logged=*/false));
  co_return Status();
}

// Once; every rank at the same step.
Task<Status> Worker::write_trace() {
  if (traced_ || c_.job.train.trace_steps == 0 || rt_.is_phantom()) co_return Status();
  traced_ = true;
  TR_CO_RETURN_IF_ERROR(co_await drain());
  const std::vector<exec::Profile> profiles = replica_->profiles();
  Result<std::string> text = co_await gather_trace(rt_, group_, spans_, profiles);
  if (!text.ok()) co_return text.status();
  if (!writes()) co_return Status();
  co_return co_await rt_.files().write_atomic(c_.run_dir + "/trace.json", as_bytes(*text));
}

WorkerShare Worker::own_share() const {
  WorkerShare s;
  s.worker = group_.rank();
  s.steps = measured_steps_;
  s.samples = own_shard_samples_ / std::max(1, plan().logical_shards);
  s.compute_seconds = to_seconds(totals_.compute_ns);
  s.exposed_seconds = to_seconds(totals_.exposed_ns);
  s.data_seconds = to_seconds(totals_.data_ns);
  s.bytes_sent = static_cast<double>(group_.stats().bytes_sent);
  return s;
}

Summary Worker::summarise() const {
  Summary s;
  s.job = c_.job.name;
  s.workers = group_.world();
  s.agreement = plan().agreement;
  s.codec = c_.job.parallel.codec;
  s.transport = group_.world() > 1 ? c_.transport : "none";
  s.device = start_.prepared->device != nullptr ? "cuda" : "cpu";
  s.precision = c_.job.train.precision;
  s.task = start_.prepared->input.task;
  s.steps = at_.steps;
  s.skipped_steps = at_.skipped;
  s.samples = at_.samples;
  s.epochs = static_cast<double>(at_.batches) / static_cast<double>(per_epoch_);
  s.wall_seconds = to_seconds(rt_.now() - started_);
  const double n = static_cast<double>(std::max<std::int64_t>(1, measured_steps_));
  s.samples_per_second = train_ns_ > 0 ? static_cast<double>(measured_samples_) / to_seconds(train_ns_) : 0;
  const double seen = static_cast<double>(std::max<std::int64_t>(1, epoch_samples_));
  s.train_loss = epoch_loss_ / seen;
  s.train_accuracy = epoch_correct_ / seen;
  s.test_loss = test_.loss;
  s.test_accuracy = test_.accuracy;
  if (c_.data->num_validation > 0) s.validation = validation_;
  s.bytes_sent_per_step = static_cast<double>(group_.stats().bytes_sent) / n;
  for (const plan::Bucket& b : plan().buckets)
    s.bytes_dense_per_step += 4.0 * static_cast<double>(b.num_elems);
  s.compute_seconds = to_seconds(totals_.compute_ns) / n;
  s.exposed_seconds = to_seconds(totals_.exposed_ns) / n;
  s.data_wait_seconds = to_seconds(totals_.data_ns) / n;
  s.checkpoint_seconds = to_seconds(writer_.stats().snapshot_ns + writer_.stats().waited_ns);
  s.per_worker = shares_;
  s.rule = replica_->rule().report().more;  // of rank 0
  if (start_.prepared->resident && group_.world() > 1) {
    const std::int32_t shards = replica_->owners()[static_cast<std::size_t>(group_.rank())].count;
    s.rule["device_collectives"] = device_sum_ != nullptr ? device_sum_->way() : "staged";
    s.rule["host_copies_per_byte"] = device_sum_ != nullptr ? 0 : shards + 1;  // of a gradient, on this rank
  }
  if (const std::optional<Json> memory = gpu_memory(c_.job, *start_.prepared)) s.rule["gpu_memory"] = *memory;
  if (s.codec == plan::kFactors) s.rule["factored"] = factored_parameters(plan());
  if (!codec_changes_.empty()) s.rule["codec_changes"] = codec_changes_;
  if (s.codec == plan::kMixed) s.rule["codecs"] = codecs_of(plan());
  s.updates_wait = waits_for_all(c_.job);
  s.prediction = plan().prediction;
  s.predicted_step_seconds = plan().prediction.step_seconds();
  s.calibrated = c_.rates != nullptr && c_.rates->calibrated;
  s.measured_step_seconds = to_seconds(train_ns_) / n;
  if (!rt_.is_phantom()) s.parameters_sha256 = io::parameters_sha256(replica_->parameters());
  s.reached_target = at_.reached_target;
  s.finished = at_.batches >= total_batches_ || at_.reached_target;
  s.ok = true;
  return s;
}

Task<Status> Worker::finish() {
  if (!writes()) co_return Status();
  TR_CO_RETURN_IF_ERROR(co_await metrics_.flush());
  co_return co_await writer_.finish();
}

Task<Result<Summary>> Worker::run() {
  Status status = co_await begin();
  if (status.ok()) status = co_await loop();
  const Status finished = co_await finish();  // a checkpoint under way is worth its end, whatever happened
  if (status.ok()) status = finished;
  if (status.ok() && device_sum_ != nullptr) status = co_await device_sum_->close();
  if (!status.ok()) co_return status;
  if (group_.world() > 1) {
    TR_CO_ASSIGN_OR_RETURN(shares_, co_await gather_shares(rt_, group_, own_share()));
  }
  const Summary summary = summarise();
  if (writes()) {
    const std::string text = to_json(summary).dump(2) + "\n";
    TR_CO_RETURN_IF_ERROR(co_await rt_.files().write_atomic(c_.run_dir + "/summary.json", as_bytes(text)));
  }
  co_return summary;
}

}  // namespace

void stop_on_interrupt(runtime::Runtime& rt, runtime::CancelToken stop) {
  rt.on_interrupt([&rt, stop]() mutable {
    stop.cancel(Status(Code::kCancelled, "interrupted"));
    rt.post([&rt] { rt.on_interrupt(nullptr); });  // not here: it would destroy this very handler
  });
}

Task<Result<Summary>> train_rank(RankContext context) {
  runtime::Runtime& rt = *context.rt;
  std::unique_ptr<net::Transport> wire = std::move(context.connected);
  if (wire == nullptr) {
    auto transport = co_await net::connect_transport(rt, context.transport, context.connect);
    if (!transport.ok()) co_return transport.status();
    wire = std::move(*transport);
  }
  if (context.send_log != nullptr) wire = net::make_recording_transport(std::move(wire), context.send_log);
  comm::GroupOptions options;
  options.epoch = context.connect.epoch;
  options.membership.epoch = context.connect.epoch;
  options.membership.deadline = context.job.parallel.deadline_ms * kMilli;
  options.membership.heartbeat = options.membership.deadline / 10;
  options.membership.arrival = options.membership.deadline;  // connecting has shown that everybody is there
  options.model = cost::CommModel(context.link, context.machine);
  if (context.connect.world > runtime::num_cores()) options.spin_ns = 0;
  auto group = comm::make_group(rt, std::move(wire), options);
  if (!group.ok()) co_return group.status();

  KeepUntilLeft keep;
  Result<Summary> result = Status(Code::kInternal, "[train] not started");
  Result<StartState> start = co_await agree_on_start(context, **group);
  const Job asked = context.job;
  if (start.ok() && !start->prepared->plan.codec.empty())
    context.job.parallel.codec = start->prepared->plan.codec;  // chosen
  const auto row = agree::find_agreement(context.job.parallel.agreement);
  if (start.ok() && row.ok() && (*row)->pace != agree::Pace::kStep) {
    result = co_await run_leased(context, **group, std::move(*start), keep);
  } else if (start.ok()) {
    Worker worker(context, **group, std::move(*start), asked, keep);
    result = co_await worker.run();
  } else {
    result = start.status();
  }
  // A failure of this rank alone (its disk, its memory) becomes the verdict of all.
  if (!result.ok() && (*group)->verdict().ok()) (*group)->fail("training", result.status().message());
  const Status left = co_await (*group)->leave();
  if (result.ok() && !left.ok()) co_return left;
  co_return result;
}

}  // namespace trireme::train
