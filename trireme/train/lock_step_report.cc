// What a run leaves behind: its trace and its summary.
#include "trireme/train/lock_step_worker.h"

#include <algorithm>

#include "trireme/prepare/factors.h"
#include "trireme/prepare/memory_estimate.h"
#include "trireme/record/learned.h"

namespace trireme::train {
using runtime::Task;

// Once; every rank at the same step.
Task<Status> LockStepWorker::write_trace() {
  if (traced_ || c_.job.train.trace_steps == 0 || rt_.is_phantom()) co_return Status();
  traced_ = true;
  TR_CO_RETURN_IF_ERROR(co_await drain());
  const std::vector<exec::Profile> profiles = replica_->profiles();
  Result<std::string> text = co_await engine::gather_trace(rt_, group_, spans_, profiles);
  if (!text.ok()) co_return text.status();
  if (!writes()) co_return Status();
  co_return co_await rt_.files().write_atomic(c_.run_dir + "/trace.json", as_bytes(*text));
}

record::WorkerShare LockStepWorker::own_share() const {
  record::WorkerShare s;
  s.worker = group_.rank();
  s.steps = measured_steps_;
  s.samples = own_shard_samples_ / std::max(1, plan().logical_shards);
  s.compute_seconds = to_seconds(totals_.compute_ns);
  s.exposed_seconds = to_seconds(totals_.exposed_ns);
  s.data_seconds = to_seconds(totals_.data_ns);
  s.bytes_sent = static_cast<double>(group_.stats().bytes_sent);
  return s;
}

// Of rank 0, as rules report what they encode on the host.
void LockStepWorker::report_codec_on_gpu(const comm::CodedSum::Stats& coded, record::Summary& s) const {
  s.rule["encoded_on"] = "cuda";
  s.rule["encoded_messages"] = static_cast<double>(coded.messages);
  s.rule["encoded_bytes"] = coded.bytes;
  s.rule["encode_seconds"] = to_seconds(coded.encode_ns);
  s.rule["decode_seconds"] = to_seconds(coded.decode_ns);
  if (device_sum_->way() != "staged" || coded.messages == 0 || s.bytes_dense_per_step == 0) return;
  // All shards' messages pass once, down or up.
  const double buckets = static_cast<double>(plan().buckets.size());
  const double message = coded.bytes / static_cast<double>(coded.messages);
  s.rule["host_copies_per_byte"] = message * buckets * plan().logical_shards / s.bytes_dense_per_step;
}

record::Summary LockStepWorker::summarise() const {
  record::Summary s;
  s.job = c_.job.name;
  s.job_sha256 = plan().job_sha256;
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
  s.has_test = c_.data->num_test > 0;
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
  if (const comm::CodedSum::Stats* coded = device_sum_ != nullptr ? device_sum_->coding() : nullptr)
    report_codec_on_gpu(*coded, s);
  if (const std::optional<Json> memory = prepare::gpu_memory(c_.job, *start_.prepared))
    s.rule["gpu_memory"] = *memory;
  if (s.codec == plan::kFactors) s.rule["factored"] = prepare::factored_parameters(plan());
  if (!codec_changes_.empty()) s.rule["codec_changes"] = codec_changes_;
  if (s.codec == plan::kMixed) s.rule["codecs"] = prepare::codecs_of(plan());
  s.updates_wait = job::waits_for_all(c_.job);
  s.prediction = plan().prediction;
  s.predicted_one_worker_rate = s.prediction.one_worker_rate(c_.job.train.batch);
  s.predicted_step_seconds = plan().prediction.step_seconds();
  s.calibrated = c_.rates != nullptr && c_.rates->calibrated;
  s.measured_step_seconds = to_seconds(train_ns_) / n;
  s.reached_target = at_.reached_target;
  s.stopped_early = at_.stopped_early;
  if (at_.best.step >= 0 && c_.job.train.keep_best) s.best = at_.best;
  s.finished = at_.batches >= total_batches_ || at_.has_ended();
  s.ok = true;
  record::judge_summary(c_.job, *c_.data, at_.losses, !rt_.is_phantom(), s);
  return s;
}

}  // namespace trireme::train
