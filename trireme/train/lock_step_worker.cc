#include "trireme/train/lock_step_worker.h"

#include <algorithm>
#include <cmath>

#include "trireme/engine/first_broken.h"
#include "trireme/engine/replica_check.h"
#include "trireme/engine/shard_state.h"
#include "trireme/engine/state/move_state.h"
#include "trireme/train/replica_leases.h"

namespace trireme::train {
using runtime::Task;

Task<Status> LockStepWorker::restore() {
  if (lines_->stages() != nullptr && !rt_.is_phantom()) {
    TR_CO_ASSIGN_OR_RETURN(rows_of_stages_,
                           co_await engine::learn_rows(rt_, *lines_->stages(), replica_->shard_state()));
  }
  if (start_.resumed) {
    TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors tensors, replica_->state());
    TR_CO_ASSIGN_OR_RETURN(const engine::HeldState state, replica_->held(tensors));
    TR_CO_RETURN_IF_ERROR(co_await engine::restore_pieces(rt_, group_, start_.stored, state,
                                                          {plan::kSlotRestore, 0, "restore"}));
    account_.resume();
    const engine::HeldState rows = engine::held_shards(*replica_, group_, rows_of_stages_);
    TR_CO_RETURN_IF_ERROR(
        co_await engine::restore_shard_state(rt_, group_, start_.stored, rows, plan().chosen_at > 0));
    TR_CO_ASSIGN_OR_RETURN(leases_, data::LeaseBook::from_cursor(start_.cursor));
  } else if (start_.stored.is_there()) {
    TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors tensors, replica_->parameters());
    TR_CO_ASSIGN_OR_RETURN(const engine::HeldState parameters, replica_->held(tensors));
    TR_CO_RETURN_IF_ERROR(co_await inherit_state(rt_, group_, c_.job.model.init_from,
                                                 start_.prepared->inherited, parameters, start_.stored));
  }
  start_.stored = {};
  TR_CO_RETURN_IF_ERROR(replica_->publish());
  if (!replica_->shares_weights()) co_return Status();
  comm::Call ready;  // the first replica has written them
  ready.slot = plan::kSlotSharedReady;
  ready.label = "shared weights";
  co_return co_await lines_->data().barrier(std::move(ready));
}

// One set of weights and optimiser states for all replicas on the host, where the plan has it so and they
// fit.
Task<Status> LockStepWorker::share_model(engine::ReplicaLinks& links) {
  if (!plan().shared_weights || rt_.is_phantom()) co_return Status();
  auto weights = co_await engine::share_weights(rt_, lines_->data(), plan());
  Result<Tensor> states = Tensor();
  if (weights.ok()) states = co_await engine::share_states(rt_, lines_->data(), start_.prepared->states);
  const Status& failed = weights.ok() ? states.status() : weights.status();
  if (failed.code() == Code::kExhausted && c_.job.parallel.weights == "auto") co_return Status();
  TR_CO_RETURN_IF_ERROR(failed);
  links.shared_weights = std::move(*weights);
  links.shared_states = std::move(*states);
  co_return Status();
}

Task<Status> LockStepWorker::begin() {
  engine::ReplicaLinks links;
  TR_CO_ASSIGN_OR_RETURN(lines_, engine::MeshLines::make(group_, plan().mesh()));
  links.lines = lines_.get();
  TR_CO_RETURN_IF_ERROR(co_await share_model(links));
  const engine::Nearness near = engine::Nearness::of(c_.transport, c_.workers);
  TR_CO_ASSIGN_OR_RETURN(device_sum_, co_await engine::make_device_exchange(
                                          *c_.rt, c_.job, near, lines_->data(), *start_.prepared));
  if (device_sum_ != nullptr) keep_.push_back(device_sum_->keep_mapped());
  links.device_sum = device_sum_;
  const int shards = plan().owners[static_cast<std::size_t>(lines_->replica())].count;
  TR_CO_ASSIGN_OR_RETURN(
      model_exchange_,
      co_await engine::make_model_exchange(*c_.rt, c_.job, near, lines_->model(), *start_.prepared, shards));
  if (model_exchange_ != nullptr) keep_.push_back(model_exchange_->keep_mapped());
  lines_->set_exchange(model_exchange_);
  auto replica = engine::Replica::make(rt_, group_, c_.job, start_.prepared, c_.data, std::move(links));
  if (!replica.ok()) co_return replica.status();
  replica_ = std::move(*replica);
  const std::int64_t per_epoch = replica_->order().batches_per_epoch();
  account_.set_length(c_.job.train.steps > 0 ? c_.job.train.steps : c_.job.train.epochs * per_epoch,
                      per_epoch);
  co_await replica_->clear();
  TR_CO_RETURN_IF_ERROR(co_await replica_->initialise(static_cast<std::uint64_t>(c_.job.train.seed)));
  TR_CO_RETURN_IF_ERROR(replica_->publish());
  TR_CO_RETURN_IF_ERROR(co_await restore());
  replica_->start_feed(at().batches, total_batches());
  co_return co_await account_.open();
}

// A step ends with its epoch, however far the batch has grown.
engine::StepInput LockStepWorker::next_step() const {
  const model::SchedulePoint point = model::schedule_at(schedule_, at().samples, total_samples());
  engine::StepInput input;
  input.step = at().steps;
  input.first_batch = at().batches;
  input.num_batches = std::min(
      {point.batch_multiplier, per_epoch() - at().batches % per_epoch(), total_batches() - at().batches});
  for (std::int64_t i = 0; i < input.num_batches; ++i)
    input.num_samples += replica_->order().samples_in_batch((at().batches + i) % per_epoch());
  input.applied = at().steps - at().skipped;
  input.learning_rate = static_cast<float>(point.lr);
  input.velocity_factor = static_cast<float>(
      model::velocity_factor(schedule_, at().samples_before, at().samples, total_samples()));
  if (job::encoders_make_momentum(c_.job, start_.prepared->sending) &&
      at().steps >= job::coding_of(c_.job, start_.prepared->sending).dense_steps)
    input.momentum_kept = 0;
  input.stop_wanted = c_.stop.cancelled();
  input.save_wanted = account_.save_is_due();
  input.end_batch = total_batches();
  return input;
}

void LockStepWorker::count(const engine::StepInput& input, const engine::StepOutput& out, TimeNs step_ns) {
  if (out.applied) at().samples_before = at().samples;
  at().samples += input.num_samples;
  at().batches += input.num_batches;
  ++at().steps;
  if (!out.applied) ++at().skipped;
  ++measured_steps_;
  account_.count_measured(input.num_samples);
  totals_.add(out, step_ns);
  totals_.add_shard_samples(input.num_samples * own_run().count);
}

// What all ranks learned of steps: of the one before, or, where steps overlap, of earlier ones.
Status LockStepWorker::learn(const std::vector<engine::StepResult>& results) {
  for (const engine::StepResult& result : results) {
    TR_CHECK(!unknown_.empty() && unknown_.front().input.step == result.step, "the result of step {}",
             result.step);
    const auto [input, applied, grad_norm] = unknown_.front();
    unknown_.pop_front();
    if (applied && !std::isfinite(result.loss))
      return error(Code::kInternal,
                   "[train] the sum of the losses over all shards is not a number at step {}; try a smaller "
                   "train.optimizer.lr (the learning rate here was {})",
                   input.step + 1, input.learning_rate);
    stopped_ = stopped_ || result.stop;
    save_.wanted = save_.wanted || result.save;
    const auto samples = static_cast<double>(input.num_samples);
    if (applied) {  // else its loss may be no number
      at().losses.add(result.loss);
      account_.add_samples(input.num_samples, result.loss * samples, result.correct);
    }
    if (!chief()) continue;
    record::MetricsLog::Step row;
    row.step = input.step + 1;
    row.epoch = input.first_batch / per_epoch();
    row.loss = result.loss;
    row.accuracy = samples > 0 ? result.correct / samples : 0;
    row.lr = input.learning_rate;
    row.samples = input.num_samples;
    row.grad_norm = grad_norm;
    row.skipped = !applied;
    account_.log_step(row, input.first_batch + input.num_batches);
  }
  return {};
}

Task<Status> LockStepWorker::one_step() {
  const engine::StepInput input = next_step();
  replica_->trace_to(measured_steps_ < c_.job.train.trace_steps ? &spans_ : nullptr);
  // The coordinator's book: every replica's run of shards is out while the step runs, and done when the
  // exchange has proved that everybody finished.
  if (chief()) TR_CO_RETURN_IF_ERROR(grant_runs(leases_, input.step, replica_->owners()));
  const TimeNs before = rt_.now();
  Result<engine::StepOutput> result = co_await replica_->run_step(input);
  if (!result.ok()) co_return result.status();
  const engine::StepOutput& out = *result;
  const TimeNs step_ns = rt_.now() - before;
  account_.add_train_time(step_ns);
  if (chief()) TR_CO_RETURN_IF_ERROR(finish_runs(leases_, input.step, replica_->owners()));
  count(input, out, step_ns);
  unknown_.push_back({input, out.applied, out.grad_norm});
  std::vector<engine::StepResult> results = out.earlier;
  if (!out.overlaps) results.push_back({input.step, out.loss, out.correct, out.stop, out.save});
  co_return learn(results);
}

// Epochs are evaluated on the validation samples where there are some, the end on the test samples.
Task<Status> LockStepWorker::evaluate(bool at_end, bool logged) {
  const bool validates = c_.data->num_validation > 0;
  const std::int64_t epoch = (at().batches + per_epoch() - 1) / per_epoch();
  std::vector<engine::Part> parts{validates ? engine::Part::kValidation : engine::Part::kTest};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::map<std::string, double> sent = lines_->bytes_sent();
    Result<engine::EvalOutput> result = co_await replica_->evaluate(at().steps, parts[i]);
    if (!result.ok()) co_return result.status();
    lines_->leave_off(sent);
    account_.keep_result(parts[i], *result);
    tested_ = tested_ || parts[i] == engine::Part::kTest;
    if (i == 0 && logged) save_.improved = account_.take_evaluation(parts[0], *result);
    const bool last = at_end || at().has_ended();
    if (i == 0 && validates && last) parts.push_back(engine::Part::kTest);
    account_.show_evaluation(parts[i], epoch, *result, logged);
  }
  at().owes_evaluation = false;
  co_return Status();
}

// `every` steps, or at the end of an epoch.
bool LockStepWorker::due(std::int64_t every) const {
  return every > 0 ? at().steps % every == 0 : at().batches % per_epoch() == 0;
}

bool LockStepWorker::saves() const {
  return due(c_.job.train.checkpoint_steps) || save_.wanted || ended() || save_.changed ||
         (save_.improved && c_.job.train.keep_best);
}

Task<Status> LockStepWorker::checkpoint() {
  save_ = {};
  account_.note_save();
  if (c_.run_dir.empty()) co_return Status();
  // A gradient may break while the loss is still a number: what cannot go on must not replace what can.
  TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors model, replica_->saved(false));
  TR_CO_ASSIGN_OR_RETURN(const engine::HeldState parameters, replica_->held(model));
  TR_CO_ASSIGN_OR_RETURN(const std::string broken,
                         co_await engine::find_not_finite(rt_, group_, parameters, at().steps));
  if (!broken.empty())
    co_return error(Code::kInternal,
                    "[train] '{}' holds an infinity or NaN after step {}, so no checkpoint is written; try a "
                    "smaller train.optimizer.lr, train.optimizer.clip_norm = 1.0, or train.nan = \"skip\"",
                    broken, at().steps);
  TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors state, replica_->saved(true));
  TR_CO_ASSIGN_OR_RETURN(engine::HeldState held, replica_->held(state));
  const engine::HeldState all =
      engine::join(std::move(held), engine::held_shards(*replica_, group_, rows_of_stages_));
  co_return co_await account_.save(group_, all, leases_.cursor());
}

Task<Status> LockStepWorker::check_replicas() {
  TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors tensors, replica_->state());
  TR_CO_ASSIGN_OR_RETURN(const engine::HeldState state, replica_->held(tensors));
  co_return co_await engine::check_replicas(rt_, group_, at().steps, state);
}

// The end of what is under way belongs to the steps before.
Task<Status> LockStepWorker::drain() {
  const TimeNs before = rt_.now();
  TR_CO_ASSIGN_OR_RETURN(const std::vector<engine::StepResult> results, co_await replica_->drain());
  account_.add_train_time(rt_.now() - before);
  totals_.add_exposed(rt_.now() - before);
  TR_CO_RETURN_IF_ERROR(learn(results));
  co_return Status();
}

Task<Status> LockStepWorker::loop() {
  account_.start_clock();
  // It may end the run: nothing is trained beyond train.target_accuracy or train.patience.
  if (at().owes_evaluation) {
    TR_CO_RETURN_IF_ERROR(co_await evaluate(false));
    TR_CO_RETURN_IF_ERROR(co_await checkpoint());  // what it came to is known from now on
  }
  while (!ended()) {
    if (at().batches % per_epoch() == 0) account_.begin_epoch();
    TR_CO_RETURN_IF_ERROR(co_await one_step());
    if (measured_steps_ >= c_.job.train.trace_steps) TR_CO_RETURN_IF_ERROR(co_await write_trace());
    const bool at_end = at().batches >= total_batches();
    at().owes_evaluation = due(c_.job.train.eval_steps) || at_end;
    const std::int64_t check_steps = c_.job.parallel.check_steps;
    const bool checks = check_steps > 0 && at().steps % check_steps == 0 && group_.world() > 1;
    if (measured_steps_ == looked_.from) begin_look();
    const bool looks = measures_codecs();
    if (checks || looks || balances() || at().owes_evaluation || saves())
      TR_CO_RETURN_IF_ERROR(co_await drain());
    if (balances()) TR_CO_RETURN_IF_ERROR(co_await balance());
    if (checks) TR_CO_RETURN_IF_ERROR(co_await check_replicas());
    if (at().owes_evaluation && (!stopped_ || at_end)) TR_CO_RETURN_IF_ERROR(co_await evaluate(at_end));
    if (looks) TR_CO_RETURN_IF_ERROR(co_await look_at_codecs());
    // After a change too: residuals are those of the new plan.
    if (saves()) TR_CO_RETURN_IF_ERROR(co_await checkpoint());
  }
  TR_CO_RETURN_IF_ERROR(co_await write_trace());
  // A run resumed after its last step has nothing left to do but to be graded; the log has its grades.
  const bool whole = at().batches >= total_batches() || at().has_ended();
  if (whole && !tested_) TR_CO_RETURN_IF_ERROR(co_await evaluate(true, /*logged=*/false));
  co_return Status();
}

Task<Result<record::Summary>> LockStepWorker::run() {
  Status status = co_await begin();
  if (status.ok()) status = co_await loop();
  const Status finished =
      co_await account_.finish();  // a checkpoint under way is worth its end, whatever happened
  if (status.ok()) status = finished;
  if (status.ok() && device_sum_ != nullptr) status = co_await device_sum_->close();
  if (status.ok() && model_exchange_ != nullptr) status = co_await model_exchange_->close();
  if (!status.ok()) co_return status;
  if (group_.world() > 1) {
    TR_CO_ASSIGN_OR_RETURN(shares_, co_await record::gather_shares(rt_, group_, own_share()));
    if (!c_.workers.empty()) shares_ = by_worker(shares_, c_.workers);
  }
  record::Summary summary = summarise();
  if (lines_->stages() != nullptr) {
    TR_CO_ASSIGN_OR_RETURN(summary.pipeline, co_await report_stages(rt_, group_, *start_.prepared, totals_));
  }
  TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors tensors, replica_->parameters());
  TR_CO_ASSIGN_OR_RETURN(const engine::HeldState parameters, replica_->held(tensors));
  TR_CO_ASSIGN_OR_RETURN(summary.parameters_sha256,
                         co_await engine::hash_parameters(rt_, group_, parameters, at().steps));
  TR_CO_RETURN_IF_ERROR(co_await account_.write(summary));
  co_return summary;
}

}  // namespace trireme::train
