#include "trireme/train/lock_step_worker.h"

#include <algorithm>
#include <cmath>

#include "trireme/engine/first_broken.h"
#include "trireme/engine/move_state.h"
#include "trireme/engine/replica_check.h"
#include "trireme/engine/shard_state.h"

namespace trireme::train {
using runtime::Task;

Task<Status> LockStepWorker::restore() {
  const IsShared is_shared = [this](const Tensor& t) { return replica_->is_shared(t); };
  if (start_.resumed) {
    TR_CO_ASSIGN_OR_RETURN(io::NamedTensors state, replica_->state());
    TR_CO_RETURN_IF_ERROR(co_await restore_state(rt_, group_, std::move(state), start_.restored, is_shared));
    at_ = start_.at;
    best_saved_ = at_.best.step;
    TR_CO_RETURN_IF_ERROR(co_await engine::scatter_shard_state(
        rt_, group_, replica_->rule(), replica_->owners(), start_.restored, at_.steps,
        engine::ShardMove::kRestore, plan().chosen_at > 0));
    TR_CO_ASSIGN_OR_RETURN(leases_, data::LeaseBook::from_cursor(start_.cursor));
  } else if (!c_.job.model.init_from.empty() && !rt_.is_phantom()) {
    TR_CO_ASSIGN_OR_RETURN(io::NamedTensors parameters, replica_->parameters());
    TR_CO_RETURN_IF_ERROR(co_await inherit_state(rt_, group_, c_.job.model.init_from,
                                                 start_.prepared->inherited, std::move(parameters),
                                                 start_.restored, is_shared));
  }
  start_.restored.clear();
  TR_CO_RETURN_IF_ERROR(replica_->publish());
  if (!replica_->shares_weights()) co_return Status();
  comm::Call ready;  // rank 0 has written them
  ready.slot = engine::kSlotSharedReady;
  ready.label = "shared weights";
  co_return co_await group_.barrier(std::move(ready));
}

// One set of weights and optimiser states for all workers of the host, where the plan has it so and they fit.
Task<Status> LockStepWorker::share_model(engine::ReplicaLinks& links) {
  if (!plan().shared_weights || rt_.is_phantom()) co_return Status();
  auto weights = co_await engine::share_weights(rt_, group_, plan());
  Result<Tensor> states = Tensor();
  if (weights.ok()) states = co_await engine::share_states(rt_, group_, start_.prepared->states);
  const Status& failed = weights.ok() ? states.status() : weights.status();
  if (failed.code() == Code::kExhausted && c_.job.parallel.weights == "auto") co_return Status();
  TR_CO_RETURN_IF_ERROR(failed);
  links.shared_weights = std::move(*weights);
  links.shared_states = std::move(*states);
  co_return Status();
}

Task<Status> LockStepWorker::begin() {
  engine::ReplicaLinks links;
  TR_CO_RETURN_IF_ERROR(co_await share_model(links));
  TR_CO_ASSIGN_OR_RETURN(device_sum_, co_await engine::make_device_exchange(*c_.rt, c_.job, c_.transport,
                                                                            group_, *start_.prepared));
  if (device_sum_ != nullptr) keep_.push_back(device_sum_->keep_mapped());
  links.device_sum = device_sum_;
  auto replica = engine::Replica::make(rt_, group_, c_.job, start_.prepared, c_.data, std::move(links));
  if (!replica.ok()) co_return replica.status();
  replica_ = std::move(*replica);
  per_epoch_ = replica_->order().batches_per_epoch();
  total_batches_ = c_.job.train.steps > 0 ? c_.job.train.steps : c_.job.train.epochs * per_epoch_;
  co_await replica_->clear();
  co_await replica_->initialise(static_cast<std::uint64_t>(c_.job.train.seed));
  TR_CO_RETURN_IF_ERROR(replica_->publish());
  TR_CO_RETURN_IF_ERROR(co_await restore());
  replica_->start_feed(at_.batches, total_batches_);
  if (chief()) tell_start(c_, *start_.prepared, at_, total_batches_, per_epoch_);
  if (writes()) co_return co_await metrics_.open(at_.steps, at_.owes_evaluation);
  co_return Status();
}

// The coordinator's book: every rank's run of shards is out while the step runs, and done when the exchange
// has proved that everybody finished.
Status LockStepWorker::grant_leases() {
  if (!chief()) return {};
  for (int r = 0; r < group_.world(); ++r) {
    const collective::LeafRun run = replica_->owners()[static_cast<std::size_t>(r)];
    TR_RETURN_IF_ERROR(leases_.grant(at_.steps, {run.first, run.count}, r));
  }
  return {};
}

Status LockStepWorker::finish_leases() {
  if (!chief()) return {};
  for (int r = 0; r < group_.world(); ++r) {
    const collective::LeafRun run = replica_->owners()[static_cast<std::size_t>(r)];
    TR_RETURN_IF_ERROR(leases_.finish(at_.steps, {run.first, run.count}, r));
  }
  return {};
}

// A step ends with its epoch, however far the batch has grown.
engine::StepInput LockStepWorker::next_step() const {
  const model::SchedulePoint point = model::schedule_at(schedule_, at_.samples, total_samples());
  engine::StepInput input;
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
  if (job::lends_momentum(c_.job) && at_.steps >= job::coding_of(c_.job).dense_steps) input.momentum_kept = 0;
  input.stop_wanted = c_.stop.cancelled();
  const double minutes = c_.job.train.checkpoint_minutes;
  input.save_wanted = writes() && minutes > 0 && rt_.now() - saved_at_ >= from_seconds(60 * minutes);
  return input;
}

void LockStepWorker::count(const engine::StepInput& input, const engine::StepOutput& out) {
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
  save_wanted_ = out.save;
  if (!out.applied) return;  // its loss may be no number
  at_.losses.add(out.loss);
  epoch_samples_ += input.num_samples;
  epoch_loss_ += out.loss * static_cast<double>(input.num_samples);
  epoch_correct_ += out.correct;
}

Task<Status> LockStepWorker::one_step() {
  const engine::StepInput input = next_step();
  replica_->trace_to(measured_steps_ < c_.job.train.trace_steps ? &spans_ : nullptr);
  TR_CO_RETURN_IF_ERROR(grant_leases());
  const TimeNs before = rt_.now();
  Result<engine::StepOutput> result = co_await replica_->run_step(input);
  if (!result.ok()) co_return result.status();
  const engine::StepOutput& out = *result;
  train_ns_ += rt_.now() - before;
  TR_CO_RETURN_IF_ERROR(finish_leases());
  if (out.applied && !std::isfinite(out.loss))
    co_return error(Code::kInternal,
                    "[train] the sum of the losses over all shards is not a number at step {}; try a smaller "
                    "train.optimizer.lr (the learning rate here was {})",
                    input.step + 1, input.learning_rate);
  count(input, out);
  if (!chief()) co_return Status();
  record::MetricsLog::Step row;
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

// The same numbers, so the same decisions, on every rank.
void LockStepWorker::judge(engine::Part part, const engine::EvalOutput& result) {
  const double target = c_.job.train.target_accuracy;
  if (target > 0 && result.accuracy >= target) at_.reached_target = true;
  if (rt_.is_phantom() || engine::range_of(*c_.data, part).count == 0) return;
  improved_ = record::take_evaluation(at_.best, start_.prepared->input.task, at_.steps, part, result.loss,
                                      result.accuracy);
  if (c_.job.train.patience && at_.best.since >= *c_.job.train.patience) at_.stopped_early = true;
}

// Epochs are judged by the validation samples where there are some, the end by the test samples.
Task<Status> LockStepWorker::evaluate(bool at_end, bool logged) {
  const bool validates = c_.data->num_validation > 0;
  const std::int64_t epoch = (at_.batches + per_epoch_ - 1) / per_epoch_;
  std::vector<engine::Part> parts{validates ? engine::Part::kValidation : engine::Part::kTest};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Result<engine::EvalOutput> result = co_await replica_->evaluate(at_.steps, parts[i]);
    if (!result.ok()) co_return result.status();
    (parts[i] == engine::Part::kTest ? test_ : validation_) = *result;
    tested_ = tested_ || parts[i] == engine::Part::kTest;
    if (i == 0 && logged) judge(parts[0], *result);
    const bool last = at_end || at_.has_ended();
    if (i == 0 && validates && last) parts.push_back(engine::Part::kTest);
    if (!chief() || engine::range_of(*c_.data, parts[i]).count == 0) continue;
    if (logged) metrics_.add_evaluation({at_.steps, epoch, parts[i], result->loss, result->accuracy});
    if (c_.progress != nullptr)
      c_.progress->on_evaluation({at_.steps, epoch, parts[i], result->loss, result->accuracy});
  }
  at_.owes_evaluation = false;
  co_return Status();
}

// `every` steps, or at the end of an epoch.
bool LockStepWorker::due(std::int64_t every) const {
  return every > 0 ? at_.steps % every == 0 : at_.batches % per_epoch_ == 0;
}

bool LockStepWorker::saves() const {
  return due(c_.job.train.checkpoint_steps) || save_wanted_ || ended() || changed_ ||
         (improved_ && c_.job.train.keep_best);
}

Task<Status> LockStepWorker::checkpoint() {
  changed_ = improved_ = save_wanted_ = false;
  saved_at_ = rt_.now();
  io::NamedTensors of_shards;
  if (!c_.run_dir.empty()) {
    TR_CO_ASSIGN_OR_RETURN(
        of_shards, co_await engine::gather_shard_state(rt_, group_, replica_->rule(), replica_->owners(),
                                                       at_.steps, engine::ShardMove::kCheckpoint));
  }
  if (!writes()) co_return Status();
  // A gradient may break while the loss is still a number: what cannot go on must not replace what can.
  TR_CO_ASSIGN_OR_RETURN(io::NamedTensors parameters, replica_->parameters());
  const std::string broken = co_await engine::find_not_finite(rt_, std::move(parameters));
  if (!broken.empty())
    co_return error(Code::kInternal,
                    "[train] '{}' holds an infinity or NaN after step {}, so no checkpoint is written; try a "
                    "smaller train.optimizer.lr, train.optimizer.clip_norm = 1.0, or train.nan = \"skip\"",
                    broken, at_.steps);
  TR_CO_RETURN_IF_ERROR(co_await metrics_.flush());
  io::Checkpoint saved;
  saved.step = at_.steps;
  const std::int64_t best_before = std::exchange(best_saved_, at_.best.step);
  if (c_.job.train.keep_best) saved.keep = {at_.best.step, best_before};
  saved.state = to_json(at_);
  saved.state["seed"] = c_.job.train.seed;
  saved.state["job_sha256"] = plan().job_sha256;
  saved.state["cursor"] = leases_.cursor();
  saved.state["data"] = start_.data;
  TR_CO_ASSIGN_OR_RETURN(saved.tensors, replica_->state());
  for (auto& named : of_shards) saved.tensors.push_back(std::move(named));
  TR_CO_RETURN_IF_ERROR(co_await writer_.begin(std::move(saved)));
  if (c_.progress != nullptr) c_.progress->on_checkpoint(at_.steps);
  co_return Status();
}

Task<Status> LockStepWorker::check_replicas() {
  TR_CO_ASSIGN_OR_RETURN(io::NamedTensors state, replica_->state());
  co_return co_await engine::check_replicas(rt_, group_, at_.steps, std::move(state));
}

// The end of what is under way belongs to the steps before.
Task<Status> LockStepWorker::drain() {
  const TimeNs before = rt_.now();
  TR_CO_RETURN_IF_ERROR(co_await replica_->drain());
  train_ns_ += rt_.now() - before;
  totals_.exposed_ns += rt_.now() - before;
  co_return Status();
}

Task<Status> LockStepWorker::loop() {
  started_ = saved_at_ = rt_.now();
  // It may end the run: nothing is trained beyond train.target_accuracy or train.patience.
  if (at_.owes_evaluation) {
    TR_CO_RETURN_IF_ERROR(co_await evaluate(false));
    TR_CO_RETURN_IF_ERROR(co_await checkpoint());  // what it came to is known from now on
  }
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
    if (checks || looks || balances() || at_.owes_evaluation || saves())
      TR_CO_RETURN_IF_ERROR(co_await drain());
    if (balances()) TR_CO_RETURN_IF_ERROR(co_await balance());
    if (checks) TR_CO_RETURN_IF_ERROR(co_await check_replicas());
    if (at_.owes_evaluation && (!stopped_ || at_end)) TR_CO_RETURN_IF_ERROR(co_await evaluate(at_end));
    if (looks) TR_CO_RETURN_IF_ERROR(co_await look_at_codecs());
    // After a change too: residuals are those of the new plan.
    if (saves()) TR_CO_RETURN_IF_ERROR(co_await checkpoint());
  }
  TR_CO_RETURN_IF_ERROR(co_await write_trace());
  // A run resumed after its last step has nothing left to do but to be graded; the log has its grades.
  const bool whole = at_.batches >= total_batches_ || at_.has_ended();
  if (whole && !tested_) TR_CO_RETURN_IF_ERROR(co_await evaluate(true, /*logged=*/false));
  co_return Status();
}

Task<Status> LockStepWorker::finish() {
  if (!writes()) co_return Status();
  TR_CO_RETURN_IF_ERROR(co_await metrics_.flush());
  co_return co_await writer_.finish();
}

Task<Result<record::Summary>> LockStepWorker::run() {
  Status status = co_await begin();
  if (status.ok()) status = co_await loop();
  const Status finished = co_await finish();  // a checkpoint under way is worth its end, whatever happened
  if (status.ok()) status = finished;
  if (status.ok() && device_sum_ != nullptr) status = co_await device_sum_->close();
  if (!status.ok()) co_return status;
  if (group_.world() > 1) {
    TR_CO_ASSIGN_OR_RETURN(shares_, co_await record::gather_shares(rt_, group_, own_share()));
  }
  record::Summary summary = summarise();
  TR_CO_ASSIGN_OR_RETURN(io::NamedTensors parameters, replica_->parameters());
  summary.parameters_sha256 = co_await engine::hash_parameters(rt_, std::move(parameters));
  if (writes()) {
    const std::string text = to_json(summary).dump(2) + "\n";
    TR_CO_RETURN_IF_ERROR(co_await rt_.files().write_atomic(c_.run_dir + "/summary.json", as_bytes(text)));
  }
  co_return summary;
}

}  // namespace trireme::train
