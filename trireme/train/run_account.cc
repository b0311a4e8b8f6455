#include "trireme/train/run_account.h"

#include <algorithm>

#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/prepare/codec_choice.h"
#include "trireme/prepare/factors.h"
#include "trireme/record/learned.h"

namespace trireme::train {
using runtime::Task;

RunAccount::RunAccount(RankContext& context, const StartState& start, bool chief)
    : c_(context),
      rt_(*context.rt),
      start_(start),
      chief_(chief),
      metrics_(rt_, context.run_dir, context.job.options.flag(job::kEvents)),
      writer_(rt_, context.run_dir + "/checkpoints", {.chunk_bytes = engine::StreamCall::kChunkBytes}) {}

void RunAccount::resume() {
  at_ = start_.at;
  best_saved_ = at_.best.step;
}

void RunAccount::set_length(std::int64_t total_batches, std::int64_t per_epoch) {
  total_batches_ = total_batches;
  per_epoch_ = per_epoch;
}

Task<Status> RunAccount::open() {
  if (chief_) tell_start(c_, *start_.prepared, at_, total_batches_, per_epoch_);
  if (writes()) co_return co_await metrics_.open(at_.steps, at_.owes_evaluation);
  co_return Status();
}

void RunAccount::start_clock() { started_ = saved_at_ = rt_.now(); }

void RunAccount::add_samples(std::int64_t samples, double loss, double correct) {
  epoch_samples_ += samples;
  epoch_loss_ += loss;
  epoch_correct_ += correct;
}

void RunAccount::begin_epoch() {
  epoch_loss_ = epoch_correct_ = 0;
  epoch_samples_ = 0;
}

void RunAccount::log_step(record::MetricsLog::Step row, std::int64_t batches) {
  row.since_start = rt_.now() - started_;
  metrics_.add_step(row);
  if (c_.progress != nullptr)
    c_.progress->on_step(
        {row.step, batches, row.epoch, row.loss, row.accuracy, row.samples, row.skipped, rt_.now()});
}

void RunAccount::log_codec(const std::string& codec, const std::string& why) {
  metrics_.add_codec(at_.steps, codec, why);
}

bool RunAccount::take_evaluation(engine::Part part, const engine::EvalOutput& result) {
  const double target = c_.job.train.target_accuracy;
  if (target > 0 && result.accuracy >= target) at_.reached_target = true;
  if (rt_.is_phantom() || engine::range_of(*c_.data, part).count == 0) return false;
  const bool best = record::take_evaluation(at_.best, start_.prepared->input.task, at_.steps, part,
                                            result.loss, result.accuracy);
  if (c_.job.train.patience && at_.best.since >= *c_.job.train.patience) at_.stopped_early = true;
  return best;
}

void RunAccount::keep_result(engine::Part part, const engine::EvalOutput& result) {
  (part == engine::Part::kTest ? test_ : validation_) = result;
}

void RunAccount::show_evaluation(engine::Part part, std::int64_t epoch, const engine::EvalOutput& result,
                                 bool logged) {
  if (!chief_ || engine::range_of(*c_.data, part).count == 0) return;
  if (logged) metrics_.add_evaluation({at_.steps, epoch, part, result.loss, result.accuracy});
  if (c_.progress != nullptr)
    c_.progress->on_evaluation({at_.steps, epoch, part, result.loss, result.accuracy});
}

bool RunAccount::save_is_due() const {
  const double minutes = c_.job.train.checkpoint_minutes;
  return writes() && minutes > 0 && rt_.now() - saved_at_ >= from_seconds(60 * minutes);
}

Task<Status> RunAccount::save(comm::Group& group, const engine::HeldState& state, Json cursor) {
  if (!engine::one_writer(state.all) && sees_.empty()) {
    TR_CO_ASSIGN_OR_RETURN(sees_, co_await engine::who_sees_folder(rt_, group, checkpoint_dir()));
  }
  engine::SaveCall call;
  call.step = at_.steps;
  call.dir = checkpoint_dir();
  call.sees = sees_;
  call.options = writer_.options();
  TR_CO_ASSIGN_OR_RETURN(io::CheckpointPart part, engine::part_to_write(rt_, group, state, std::move(call)));
  if (!engine::writes_any(part)) co_return co_await engine::bring_pieces(std::move(part));
  co_return co_await begin_write(std::move(part), std::move(cursor));
}

Task<Status> RunAccount::save(const io::NamedTensors& here, std::vector<DistantTensor> distant, Json cursor) {
  io::CheckpointPart part = part_with_distant(here, std::move(distant));
  part.step = at_.steps;
  co_return co_await begin_write(std::move(part), std::move(cursor));
}

// What is not the pieces' is rank 0's to say.
Task<Status> RunAccount::begin_write(io::CheckpointPart part, Json cursor) {
  if (!writes()) co_return co_await writer_.begin(std::move(part));
  TR_CO_RETURN_IF_ERROR(co_await metrics_.flush());
  if (c_.job.train.keep_best) part.keep = {at_.best.step, best_saved_};
  part.state = to_json(at_);
  part.state["seed"] = c_.job.train.seed;
  part.state["job_sha256"] = plan().job_sha256;
  part.state["cursor"] = std::move(cursor);
  part.state["data"] = start_.data;
  TR_CO_RETURN_IF_ERROR(co_await writer_.begin(std::move(part)));
  best_saved_ = at_.best.step;
  if (c_.progress != nullptr) c_.progress->on_checkpoint(at_.steps);
  co_return Status();
}

Task<Status> RunAccount::finish() {
  if (!writes()) co_return co_await writer_.finish();
  TR_CO_RETURN_IF_ERROR(co_await metrics_.flush());
  co_return co_await writer_.finish();
}

record::Summary RunAccount::begin_summary(int workers, int world) const {
  record::Summary s;
  s.job = c_.job.name;
  s.job_sha256 = plan().job_sha256;
  s.workers = workers;
  s.agreement = plan().agreement;
  s.codec = job::word_of(job::sending_of(c_.job, plan().codec));
  s.transport = world > 1 ? c_.transport : "none";
  s.precision = c_.job.train.precision;
  s.task = start_.prepared->input.task;
  s.steps = at_.steps;
  s.skipped_steps = at_.skipped;
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
  for (const plan::Bucket& b : plan().buckets)
    s.bytes_dense_per_step += 4.0 * static_cast<double>(b.num_elems);
  s.checkpoint_seconds = to_seconds(writer_.stats().snapshot_ns + writer_.stats().waited_ns);
  return s;
}

void RunAccount::complete(record::Summary& s) const {
  const job::Sending sending = job::sending_of(c_.job, plan().codec);
  if (sending.is(job::Sending::Kind::kFactors)) s.rule["factored"] = prepare::factored_parameters(plan());
  if (sending.is(job::Sending::Kind::kMixed)) s.rule["codecs"] = prepare::codecs_of(plan());
  s.updates_wait = job::waits_for_all(c_.job);
  s.prediction = plan().prediction;
  s.predicted_one_worker_rate = s.prediction.one_worker_rate(c_.job.train.batch);
  s.predicted_step_seconds = plan().prediction.step_seconds();
  s.calibrated = c_.rates != nullptr && c_.rates->calibrated;
  s.reached_target = at_.reached_target;
  s.stopped_early = at_.stopped_early;
  if (at_.best.step >= 0 && c_.job.train.keep_best) s.best = at_.best;
  s.ok = true;
  record::judge_summary(c_.job, *c_.data, at_.losses, !rt_.is_phantom(), s);
}

Task<Status> RunAccount::write(const record::Summary& s) const {
  if (!writes()) co_return Status();
  const std::string text = to_json(s).dump(2) + "\n";
  co_return co_await rt_.files().write_atomic(c_.run_dir + "/summary.json", as_bytes(text));
}

}  // namespace trireme::train
