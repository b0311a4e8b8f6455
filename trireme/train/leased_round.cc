#include "trireme/train/leased_round.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/engine/first_broken.h"
#include "trireme/engine/replica_checkpoint.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
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
      account_(context, start, /*chief=*/true),
      book_(start.prepared->plan.logical_shards),
      total_(total_batches),
      per_epoch_(replica.order().batches_per_epoch()),
      units_per_batch_(start.prepared->plan.logical_shards) {
  account_.set_length(total_, per_epoch_);
}

Task<Status> Round::begin() {
  if (start_.resumed) {
    account_.resume();
    begun_at_ = at().batches;
    TR_CO_ASSIGN_OR_RETURN(book_, data::LeaseBook::from_cursor(start_.cursor));
  }
  co_return co_await account_.open();
}

engine::LeaseDesk Round::make_desk(int num_replicas) const {
  // Data that is cut by class is nobody else's; rules that count clocks need everybody to take as many.
  const bool own = row_.pace != agree::Pace::kFree || c_.job.data.partition != "random";
  auto at_once = static_cast<int>(c_.job.parallel.agreement_options.integer(agree::kLocalReplicas));
  // The ranks of a replica begin units one by one: which of them none has begun is not known here.
  if (start_.prepared->plan.tiles > 1) at_once = std::max(at_once, 2);
  return engine::LeaseDesk(own ? engine::LeaseDesk::Work::kOwn : engine::LeaseDesk::Work::kFree, num_replicas,
                           book_, at_once);
}

LeaseCoordinatorOptions Round::coordinator_options(int num_replicas) {
  LeaseCoordinatorOptions options;
  options.num_workers = num_replicas;
  if (row_.quorum != nullptr) options.fraction = row_.quorum(c_.job.parallel.agreement_options);
  options.make_ticket = [this] {
    on_meeting();  // scores may come before this rank's own worker is told that all are there
    return ticket();
  };
  options.on_report = [this](int worker, const UnitReport& report) { on_report(worker, report); };
  options.on_lost = [this](int worker, const Status& why) {
    const bool cut = start_.prepared->plan.tiles > 1;
    rt_.log(fmt::format("{} {} is lost, the others go on: {}", cut ? "replica" : "worker", worker,
                        why.message()));
    if (c_.progress == nullptr) return;
    record::Progress::Worker lost;
    lost.worker = worker;
    lost.alive = false;
    lost.now = rt_.now();
    c_.progress->on_worker(lost);
  };
  return options;
}

void Round::open(LeaseCoordinator& coordinator) {
  coordinator_ = &coordinator;
  end_ = at().owes_evaluation ? at().batches : next_end(at().batches);
  coordinator.desk().open_round(end_);
}

void Round::start_clock() {
  account_.start_clock();
  round_began_ = rt_.now();
}

// Workers meet after whole batches, so a round ends about when a checkpoint is due, at the pace so far.
std::int64_t Round::batches_until_save() const {
  constexpr std::int64_t kFirst = 8;  // to learn the pace
  const double minutes = c_.job.train.checkpoint_minutes;
  if (!writes() || minutes <= 0) return total_;
  const auto done = static_cast<double>(at().batches - begun_at_);
  if (done <= 0 || account_.train_ns() <= 0) return kFirst;
  const double left = 60 * minutes - to_seconds(rt_.now() - account_.saved_at());
  const double batches = std::ceil(left * done / to_seconds(account_.train_ns()));
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
  return engine::replica_state(own_weights, replica.rule().state());
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
  const bool saves = due(c_.job.train.checkpoint_steps, end_) || at_end || stopping_ ||
                     account_.save_is_due() || (t.parts != 0 && c_.job.train.keep_best);
  if (saves && writes()) t.saves = replicas_keep_state() ? kSavesReplicas : kSavesModel;
  return t;
}

void Round::on_report(int worker, const UnitReport& report) {
  if (report.stop_wanted != 0) stopping_ = true;
  at().samples += report.samples;
  account_.count_measured(report.samples);
  ++measured_units_;
  const auto n = static_cast<double>(report.samples);
  sum_.samples += report.samples;
  sum_.loss += report.loss * n;
  sum_.correct += report.correct;
  account_.add_samples(report.samples, report.loss * n, report.correct);
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
  ++at().steps;
  const std::int64_t epoch = (at().steps - 1) / per_epoch_;
  record::MetricsLog::Step row;
  row.epoch = epoch;
  const auto seen = static_cast<double>(std::max<std::int64_t>(1, sum_.samples));
  row.loss = sum_.loss / seen;
  row.accuracy = sum_.correct / seen;
  row.lr = report.learning_rate;
  row.samples = sum_.samples;
  at().losses.add(row.loss);
  row.step = at().steps;
  account_.log_step(row, std::min(at().steps, total_));
  sum_ = {};
  if (at().steps % per_epoch_ == 0 && at().steps < total_) account_.begin_epoch();
}

void Round::on_meeting() {
  account_.add_train_time(rt_.now() - round_began_);
  for (const auto& [bit, part] : kParts) {
    auto& to = scores_[bit - 1];
    to.assign(static_cast<std::size_t>(2 * replica_.num_eval_batches(part)), 0.0F);
    coordinator_->set_scores(bit, &to);
  }
}

Task<Result<engine::EvalOutput>> Round::read_scores(LeaseCoordinator& coordinator, engine::Part part,
                                                    std::int32_t bit, const ScoreBatches& score) {
  auto& scores = scores_[bit - 1];
  // Shares of workers that were lost on the way.
  const auto missing = coordinator.unscored(bit, static_cast<std::int64_t>(scores.size() / 2));
  for (const auto& [begin, end] : missing) TR_CO_RETURN_IF_ERROR(co_await score(part, begin, end, scores));
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

Task<Status> Round::evaluate(LeaseCoordinator& coordinator, const MeetingTicket& ticket,
                             const ScoreBatches& score) {
  const bool validates = (ticket.parts & kValidationBit) != 0;
  const std::int64_t epoch = (end_ + per_epoch_ - 1) / per_epoch_;
  for (const auto& [bit, part] : kParts) {
    if ((ticket.parts & bit) == 0) continue;
    Result<engine::EvalOutput> result = co_await read_scores(coordinator, part, bit, score);
    if (!result.ok()) co_return result.status();
    account_.keep_result(part, *result);
    if (engine::range_of(*c_.data, part).count == 0) continue;
    if (part == engine::Part::kValidation || !validates) account_.take_evaluation(part, *result);
    account_.show_evaluation(part, epoch, *result, /*logged=*/true);
  }
  co_return Status();
}

namespace {

// Whether the workers 0 .. n - 1 are there, whose state a checkpoint has.
bool has_first(const LeaseCoordinator& coordinator, int n) {
  const std::vector<int> lost = coordinator.lost();
  return std::none_of(lost.begin(), lost.end(), [n](int worker) { return worker < n; });
}

std::vector<DistantTensor> join(std::vector<DistantTensor> first, const std::vector<DistantTensor>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

Task<Status> Round::checkpoint(LeaseCoordinator& coordinator, const MeetingTicket& ticket,
                               DistantState distant) {
  io::NamedTensors model;
  std::string broken = distant.broken;
  if (distant.model.empty()) {
    TR_CO_ASSIGN_OR_RETURN(model, replica_.agreed());
    broken = co_await engine::find_not_finite(rt_, model);
  }
  if (!broken.empty())
    co_return error(
        Code::kInternal,
        "[train] '{}' of the agreed model holds an infinity or NaN after step {}, so no checkpoint is "
        "written; try a smaller train.optimizer.lr or train.optimizer.clip_norm = 1.0",
        broken, at().steps);
  account_.note_save();
  distant.servers = join(std::move(distant.servers), distant.model);
  const Json cursor = coordinator.desk().book().cursor();
  // Rules that outlive a worker go on without what it had kept, after a restart too.
  const bool needs_all = row_.pace == agree::Pace::kPeriod;
  if (needs_all || has_first(coordinator, ticket.num_present)) {
    Status saved = co_await account_.save(model, join(distant.servers, distant.replicas), cursor);
    const bool misses_one = saved.code() == Code::kPeerLost || saved.code() == Code::kMismatch;
    if (needs_all || !misses_one || !coordinator.verdict().ok()) co_return saved;
  }
  co_return co_await account_.save(model, std::move(distant.servers), cursor);
}

Task<Result<Go>> Round::grade(LeaseCoordinator& coordinator, MeetingTicket ticket, double own_drift,
                              DistantState distant) {
  TR_CO_RETURN_IF_ERROR(co_await coordinator.wait_until_all_ask_to_go());
  drift_ = coordinator.take_drift();
  drift_.sum += own_drift;
  drift_.most = std::max(drift_.most, own_drift);
  ++drift_.count;
  engine::LeaseDesk& desk = coordinator.desk();
  if (!stopping_ || desk.is_done(end_)) at().batches = std::max(at().batches, std::min(end_, total_));
  if (stopping_) at().batches = std::min(at().batches, desk.book().completed_steps());
  at().steps = std::max(at().steps, at().batches);
  const bool whole = end_ >= total_ && desk.is_done(total_);
  at().owes_evaluation = ticket.parts == 0 && due(c_.job.train.eval_steps, at().batches);
  TR_CO_RETURN_IF_ERROR(co_await evaluate(coordinator, ticket, distant.score));
  ended_ = whole || at().has_ended();
  if (ticket.saves != 0) TR_CO_RETURN_IF_ERROR(co_await checkpoint(coordinator, ticket, std::move(distant)));
  const Go go = ended_ ? Go::kEnd : stopping_ ? Go::kStop : Go::kOn;
  if (go == Go::kOn) {
    end_ = next_end(std::max(at().batches, end_));
    desk.open_round(end_);
  }
  coordinator.let_go(go);
  round_began_ = rt_.now();
  co_return go;
}

Task<Result<record::Summary>> Round::summarise(LeaseCoordinator& coordinator, const job::Roles& roles,
                                               std::string hash, Report report) {
  record::Summary s = account_.begin_summary(c_.num_workers_of(roles.workers), roles.world);
  s.servers = roles.servers;
  s.device = c_.device != nullptr ? "cuda" : "cpu";
  record::add_worker_reports(coordinator.finals(), coordinator.lost(), roles.num_replicas(), s);
  // Workers at their own pace wait at meetings alone, and have said for whom.
  const double complete = row_.quorum == nullptr ? 1 : row_.quorum(c_.job.parallel.agreement_options);
  if (row_.pace != agree::Pace::kFree)
    record::attribute_waiting(s.per_worker, static_cast<int>(std::ceil(complete * roles.num_replicas())));
  s.rule["stolen_units"] = coordinator.desk().num_stolen();
  s.rule["dropped_units"] = coordinator.desk().num_dropped();
  s.drift = drift_.count > 0 ? drift_.sum / drift_.count : 0;
  const auto batches =
      static_cast<double>(std::max<std::int64_t>(1, measured_units_)) / static_cast<double>(units_per_batch_);
  s.measured_step_seconds = to_seconds(account_.train_ns()) / batches;
  if (start_.prepared->plan.tiles > 1) {
    s.mesh = mesh_text(start_.prepared->plan.mesh());
    s.style = c_.job.options.text(job::kStyle);
    s.tiles = start_.prepared->plan.tiles;
  }
  report(s);
  s.parameters_sha256 = std::move(hash);
  s.finished = ended_;
  account_.complete(s);
  TR_CO_RETURN_IF_ERROR(co_await account_.write(s));
  co_return s;
}

}  // namespace trireme::train
