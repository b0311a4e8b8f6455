#include "trireme/train/leased_round.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/engine/first_broken.h"
#include "trireme/engine/move_state.h"
#include "trireme/engine/replica_checkpoint.h"
#include "trireme/job/job_parts.h"
#include "trireme/prepare/codec_choice.h"
#include "trireme/prepare/factors.h"
#include "trireme/record/learned.h"
#include "trireme/record/worker_reports.h"

namespace trireme::train {

using runtime::Task;

// In the order in which they are reported.
constexpr std::pair<std::int32_t, engine::Part> kParts[] = {{kValidationBit, engine::Part::kValidation},
                                                            {kTestBit, engine::Part::kTest}};

Round::Round(RankContext& context, const StartState& start, engine::Replica& replica,
             const agree::AgreementRow& row, std::int64_t total_batches)
    : c_(context),
      rt_(*context.rt),
      start_(start),
      replica_(replica),
      row_(row),
      metrics_(rt_, context.run_dir, context.job.train.events),
      writer_(rt_, context.run_dir + "/checkpoints"),
      book_(start.prepared->plan.logical_shards),
      total_(total_batches),
      per_epoch_(replica.order().batches_per_epoch()),
      units_per_batch_(start.prepared->plan.logical_shards) {}

Task<Status> Round::begin() {
  if (start_.resumed) {
    at_ = start_.at;
    best_saved_ = at_.best.step;
    begun_at_ = at_.batches;
    TR_CO_ASSIGN_OR_RETURN(book_, data::LeaseBook::from_cursor(start_.cursor));
  }
  tell_start(c_, *start_.prepared, at_, total_, per_epoch_);
  if (writes()) co_return co_await metrics_.open(at_.steps, at_.owes_evaluation);
  co_return Status();
}

engine::LeaseDesk Round::make_desk(int num_workers) const {
  // Data that is cut by class is nobody else's; rules that count clocks need everybody to take as many.
  const bool own = row_.pace != agree::Pace::kFree || c_.job.data.partition != "random";
  const auto at_once = static_cast<int>(job::rule_options(c_.job).local_replicas);
  return engine::LeaseDesk(own ? engine::LeaseDesk::Work::kOwn : engine::LeaseDesk::Work::kFree, num_workers,
                           book_, at_once);
}

CoordinatorOptions Round::coordinator_options(int num_workers) {
  CoordinatorOptions options;
  options.num_workers = num_workers;
  if (row_.completes_with_fraction) options.fraction = job::rule_options(c_.job).fraction;
  options.make_ticket = [this] { return ticket(); };
  options.on_report = [this](int worker, const UnitReport& report) { on_report(worker, report); };
  options.on_lost = [this](int worker, const Status& why) {
    rt_.log(fmt::format("worker {} is lost, the others go on: {}", worker, why.message()));
    if (c_.progress == nullptr) return;
    record::Progress::Worker lost;
    lost.worker = worker;
    lost.alive = false;
    lost.now = rt_.now();
    c_.progress->on_worker(lost);
  };
  return options;
}

void Round::open(Coordinator& coordinator) {
  coordinator_ = &coordinator;
  end_ = at_.owes_evaluation ? at_.batches : next_end(at_.batches);
  coordinator.desk().open_round(end_);
}

void Round::start_clock() { started_ = round_began_ = saved_at_ = rt_.now(); }

bool Round::save_is_due() const {
  const double minutes = c_.job.train.checkpoint_minutes;
  return writes() && minutes > 0 && rt_.now() - saved_at_ >= from_seconds(60 * minutes);
}

// Workers meet after whole batches, so a round ends about when a checkpoint is due, at the pace so far.
std::int64_t Round::batches_until_save() const {
  constexpr std::int64_t kFirst = 8;  // to learn the pace
  const double minutes = c_.job.train.checkpoint_minutes;
  if (!writes() || minutes <= 0) return total_;
  const auto done = static_cast<double>(at_.batches - begun_at_);
  if (done <= 0 || train_ns_ <= 0) return kFirst;
  const double left = 60 * minutes - to_seconds(rt_.now() - saved_at_);
  const double batches = std::ceil(left * done / to_seconds(train_ns_));
  return batches < static_cast<double>(total_) ? std::max<std::int64_t>(1, static_cast<std::int64_t>(batches))
                                               : total_;
}

// `every` batches, or the end of an epoch.
bool Round::due(std::int64_t every, std::int64_t batches) const {
  return batches % (every > 0 ? every : per_epoch_) == 0;
}

std::int64_t Round::next_end(std::int64_t from) const {
  std::int64_t end = total_;
  for (const std::int64_t every : {c_.job.train.eval_steps, c_.job.train.checkpoint_steps}) {
    const std::int64_t step = every > 0 ? every : per_epoch_;
    end = std::min(end, (from / step + 1) * step);
  }
  return std::min(end, from + batches_until_save());
}

Result<io::NamedTensors> own_state(engine::Replica& replica, const agree::AgreementRow& row) {
  io::NamedTensors own_weights;
  if (row.pace == agree::Pace::kPeriod) {
    TR_ASSIGN_OR_RETURN(own_weights, replica.state());
  }
  return engine::replica_state(std::move(own_weights), replica.rule().state());
}

// Whether replicas have something that a checkpoint keeps beside the model.
bool Round::replicas_keep_state() const {
  if (rt_.is_phantom()) return false;
  return row_.pace == agree::Pace::kPeriod || !replica_.rule().state().empty();
}

MeetingTicket Round::ticket() const {
  MeetingTicket t;
  const bool at_end = end_ >= total_ && coordinator_->desk().is_done(total_);
  const bool evaluates = !stopping_ || at_end;
  if (evaluates && (due(c_.job.train.eval_steps, end_) || at_end)) {
    const bool validates = c_.data->num_validation > 0;
    if (validates) t.parts |= kValidationBit;
    if (!validates || at_end || c_.job.train.target_accuracy > 0 || c_.job.train.patience)
      t.parts |= kTestBit;
  }
  // What is evaluated may be the best model, and is saved with all that its workers have.
  const bool saves = due(c_.job.train.checkpoint_steps, end_) || at_end || stopping_ || save_is_due() ||
                     (t.parts != 0 && c_.job.train.keep_best);
  if (saves && writes()) t.saves = replicas_keep_state() ? kSavesReplicas : kSavesModel;
  return t;
}

void Round::on_report(int worker, const UnitReport& report) {
  if (report.stop_wanted != 0) stopping_ = true;
  at_.samples += report.samples;
  measured_samples_ += report.samples;
  ++measured_units_;
  const auto n = static_cast<double>(report.samples);
  sum_.samples += report.samples;
  sum_.loss += report.loss * n;
  sum_.correct += report.correct;
  epoch_samples_ += report.samples;
  epoch_loss_ += report.loss * n;
  epoch_correct_ += report.correct;
  if (c_.progress != nullptr) {
    record::Progress::Worker one;
    one.worker = worker;
    one.steps = report.steps;
    const double seconds = to_seconds(report.compute_ns + report.exposed_ns);
    one.samples_per_second = seconds > 0 ? n / seconds : 0;
    one.loss = report.loss;
    one.now = rt_.now();
    c_.progress->on_worker(one);
  }
  if (++units_ < units_per_batch_) return;
  units_ = 0;
  ++at_.steps;
  const std::int64_t epoch = (at_.steps - 1) / per_epoch_;
  record::MetricsLog::Step row;
  row.step = at_.steps;
  row.epoch = epoch;
  const auto seen = static_cast<double>(std::max<std::int64_t>(1, sum_.samples));
  row.loss = sum_.loss / seen;
  row.accuracy = sum_.correct / seen;
  row.lr = report.learning_rate;
  row.samples = sum_.samples;
  row.since_start = rt_.now() - started_;
  at_.losses.add(row.loss);
  metrics_.add_step(row);
  if (c_.progress != nullptr)
    c_.progress->on_step({at_.steps, std::min(at_.steps, total_), row.epoch, row.loss, row.accuracy,
                          row.samples, false, rt_.now()});
  sum_ = {};
  if (at_.steps % per_epoch_ == 0 && at_.steps < total_) epoch_loss_ = epoch_correct_ = 0, epoch_samples_ = 0;
}

void Round::on_meeting() {
  train_ns_ += rt_.now() - round_began_;
  for (const auto& [bit, part] : kParts) {
    auto& to = scores_[bit - 1];
    to.assign(static_cast<std::size_t>(2 * replica_.num_eval_batches(part)), 0.0F);
    coordinator_->set_scores(bit, &to);
  }
}

Task<Result<engine::EvalOutput>> Round::read_scores(Coordinator& coordinator, engine::Part part,
                                                    std::int32_t bit) {
  auto& scores = scores_[bit - 1];
  // Shares of workers that were lost on the way.
  const auto missing = coordinator.unscored(bit, static_cast<std::int64_t>(scores.size() / 2));
  for (const auto& [begin, end] : missing)
    TR_CO_RETURN_IF_ERROR(co_await replica_.score(part, begin, end, scores));
  engine::EvalOutput out;
  for (std::size_t i = 0; i + 1 < scores.size(); i += 2) {
    out.loss += scores[i];
    out.accuracy += scores[i + 1];
  }
  const auto count = static_cast<double>(std::max<std::int64_t>(1, engine::range_of(*c_.data, part).count));
  out.loss /= count;
  out.accuracy /= count;
  co_return out;
}

void Round::judge(engine::Part part, const engine::EvalOutput& result) {
  const double target = c_.job.train.target_accuracy;
  if (target > 0 && result.accuracy >= target) at_.reached_target = true;
  if (rt_.is_phantom() || engine::range_of(*c_.data, part).count == 0) return;
  record::take_evaluation(at_.best, start_.prepared->input.task, at_.steps, part, result.loss,
                          result.accuracy);
  if (c_.job.train.patience && at_.best.since >= *c_.job.train.patience) at_.stopped_early = true;
}

Task<Status> Round::evaluate(Coordinator& coordinator, const MeetingTicket& ticket) {
  const bool validates = (ticket.parts & kValidationBit) != 0;
  const std::int64_t epoch = (end_ + per_epoch_ - 1) / per_epoch_;
  for (const auto& [bit, part] : kParts) {
    if ((ticket.parts & bit) == 0) continue;
    Result<engine::EvalOutput> result = co_await read_scores(coordinator, part, bit);
    if (!result.ok()) co_return result.status();
    (part == engine::Part::kTest ? test_ : validation_) = *result;
    if (engine::range_of(*c_.data, part).count == 0) continue;
    if (part == engine::Part::kValidation || !validates) judge(part, *result);
    metrics_.add_evaluation({at_.steps, epoch, part, result->loss, result->accuracy});
    if (c_.progress != nullptr)
      c_.progress->on_evaluation({at_.steps, epoch, part, result->loss, result->accuracy});
  }
  co_return Status();
}

Task<Status> Round::checkpoint(Coordinator& coordinator, const MeetingTicket& ticket,
                               const io::NamedTensors& servers) {
  TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors model, replica_.agreed());
  const std::string broken = co_await engine::find_not_finite(rt_, model);
  if (!broken.empty())
    co_return error(
        Code::kInternal,
        "[train] '{}' of the agreed model holds an infinity or NaN after step {}, so no checkpoint is "
        "written; try a smaller train.optimizer.lr or train.optimizer.clip_norm = 1.0",
        broken, at_.steps);
  TR_CO_RETURN_IF_ERROR(co_await metrics_.flush());
  io::Checkpoint saved;
  saved.step = at_.steps;
  const std::int64_t best_before = std::exchange(best_saved_, at_.best.step);
  if (c_.job.train.keep_best) saved.keep = {at_.best.step, best_before};
  saved_at_ = rt_.now();
  saved.state = to_json(at_);
  saved.state["seed"] = c_.job.train.seed;
  saved.state["job_sha256"] = start_.prepared->plan.job_sha256;
  saved.state["cursor"] = coordinator.desk().book().cursor();
  saved.state["data"] = start_.data;
  saved.tensors = model;
  saved.tensors.insert(saved.tensors.end(), servers.begin(), servers.end());
  if (ticket.saves == kSavesReplicas) {
    TR_CO_ASSIGN_OR_RETURN(io::NamedTensors own, own_state(replica_, row_));
    Result<io::NamedTensors> replicas =
        engine::name_replicas(std::move(own), coordinator.states(), ticket.num_present);
    // Rules that outlive a worker go on without what it had kept, after a restart too.
    if (!replicas.ok() && row_.pace == agree::Pace::kPeriod) co_return replicas.status();
    if (replicas.ok())
      for (auto& named : *replicas) saved.tensors.push_back(std::move(named));
  }
  std::sort(saved.tensors.begin(), saved.tensors.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  TR_CO_RETURN_IF_ERROR(co_await writer_.begin(std::move(saved)));
  if (c_.progress != nullptr) c_.progress->on_checkpoint(at_.steps);
  co_return Status();
}

Task<Result<Go>> Round::grade(Coordinator& coordinator, MeetingTicket ticket, double own_drift,
                              io::NamedTensors servers) {
  TR_CO_RETURN_IF_ERROR(co_await coordinator.wait_until_all_ask_to_go());
  drift_ = coordinator.take_drift();
  drift_.sum += own_drift;
  drift_.most = std::max(drift_.most, own_drift);
  ++drift_.count;
  engine::LeaseDesk& desk = coordinator.desk();
  if (!stopping_ || desk.is_done(end_)) at_.batches = std::max(at_.batches, std::min(end_, total_));
  if (stopping_) at_.batches = std::min(at_.batches, desk.book().completed_steps());
  at_.steps = std::max(at_.steps, at_.batches);
  const bool whole = end_ >= total_ && desk.is_done(total_);
  at_.owes_evaluation = ticket.parts == 0 && due(c_.job.train.eval_steps, at_.batches);
  TR_CO_RETURN_IF_ERROR(co_await evaluate(coordinator, ticket));
  ended_ = whole || at_.has_ended();
  if (ticket.saves != 0) TR_CO_RETURN_IF_ERROR(co_await checkpoint(coordinator, ticket, servers));
  const Go go = ended_ ? Go::kEnd : stopping_ ? Go::kStop : Go::kOn;
  if (go == Go::kOn) {
    end_ = next_end(std::max(at_.batches, end_));
    desk.open_round(end_);
  }
  coordinator.let_go(go);
  round_began_ = rt_.now();
  co_return go;
}

Task<Status> Round::finish() {
  if (!writes()) co_return Status();
  TR_CO_RETURN_IF_ERROR(co_await metrics_.flush());
  co_return co_await writer_.finish();
}

Task<Result<record::Summary>> Round::summarise(Coordinator& coordinator, const job::Roles& roles) {
  const plan::Plan& plan = start_.prepared->plan;
  record::Summary s;
  s.job = c_.job.name;
  s.job_sha256 = plan.job_sha256;
  s.workers = roles.workers;
  s.servers = roles.servers;
  s.agreement = plan.agreement;
  s.codec = c_.job.parallel.codec;
  s.transport = roles.world > 1 ? c_.transport : "none";
  s.device = c_.device != nullptr ? "cuda" : "cpu";
  s.precision = c_.job.train.precision;
  s.task = start_.prepared->input.task;
  s.steps = at_.steps;
  s.samples = at_.samples;
  s.epochs = static_cast<double>(at_.batches) / static_cast<double>(per_epoch_);
  s.wall_seconds = to_seconds(rt_.now() - started_);
  s.samples_per_second = train_ns_ > 0 ? static_cast<double>(measured_samples_) / to_seconds(train_ns_) : 0;
  const auto seen = static_cast<double>(std::max<std::int64_t>(1, epoch_samples_));
  s.train_loss = epoch_loss_ / seen;
  s.train_accuracy = epoch_correct_ / seen;
  s.has_test = c_.data->num_test > 0;
  s.test_loss = test_.loss;
  s.test_accuracy = test_.accuracy;
  if (c_.data->num_validation > 0) s.validation = validation_;
  for (const plan::Bucket& b : plan.buckets) s.bytes_dense_per_step += 4.0 * static_cast<double>(b.num_elems);
  record::add_worker_reports(coordinator.finals(), coordinator.lost(), roles.workers, s);
  // Workers at their own pace wait at meetings alone, and have said for whom.
  const double complete = row_.completes_with_fraction ? job::rule_options(c_.job).fraction : 1;
  if (row_.pace != agree::Pace::kFree)
    record::attribute_waiting(s.per_worker, static_cast<int>(std::ceil(complete * roles.workers)));
  if (s.codec == plan::kFactors) s.rule["factored"] = prepare::factored_parameters(plan);
  if (s.codec == plan::kMixed) s.rule["codecs"] = prepare::codecs_of(plan);
  s.rule["stolen_units"] = coordinator.desk().num_stolen();
  s.rule["dropped_units"] = coordinator.desk().num_dropped();
  s.drift = drift_.count > 0 ? drift_.sum / drift_.count : 0;
  s.checkpoint_seconds = to_seconds(writer_.stats().snapshot_ns + writer_.stats().waited_ns);
  s.updates_wait = job::waits_for_all(c_.job);
  s.prediction = plan.prediction;
  s.predicted_one_worker_rate = s.prediction.one_worker_rate(c_.job.train.batch);
  s.predicted_step_seconds = plan.prediction.step_seconds();
  const auto batches =
      static_cast<double>(std::max<std::int64_t>(1, measured_units_)) / static_cast<double>(units_per_batch_);
  s.calibrated = c_.rates != nullptr && c_.rates->calibrated;
  s.measured_step_seconds = to_seconds(train_ns_) / batches;
  TR_CO_ASSIGN_OR_RETURN(io::NamedTensors agreed, replica_.agreed());
  s.parameters_sha256 = co_await engine::hash_parameters(rt_, std::move(agreed));
  s.reached_target = at_.reached_target;
  s.stopped_early = at_.stopped_early;
  if (at_.best.step >= 0 && c_.job.train.keep_best) s.best = at_.best;
  s.finished = ended_;
  s.ok = true;
  record::judge_summary(c_.job, *c_.data, at_.losses, !rt_.is_phantom(), s);
  if (writes()) {
    const std::string text = to_json(s).dump(2) + "\n";
    TR_CO_RETURN_IF_ERROR(co_await rt_.files().write_atomic(c_.run_dir + "/summary.json", as_bytes(text)));
  }
  co_return s;
}

}  // namespace trireme::train
