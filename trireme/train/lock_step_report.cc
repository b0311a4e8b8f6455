// What a run leaves behind: its trace and its summary.
#include "trireme/train/lock_step_worker.h"

#include <algorithm>
#include <utility>

#include "trireme/job/job_options.h"
#include "trireme/prepare/memory_estimate.h"
#include "trireme/tensor/host_memory.h"
#include "trireme/train/seated.h"

namespace trireme::train {
using runtime::Task;

namespace {

// Sums of `steps` steps of rank 0. What ranks exchange beside the axes (checkpoints, hashes) is in neither,
// and bytes of evaluations are not in those of steps.
void report_mesh(const engine::MeshLines& lines, const StepTotals& totals, double steps, record::Summary& s) {
  s.bytes_by_axis = lines.bytes_sent();
  for (auto& [axis, bytes] : s.bytes_by_axis) bytes /= steps;
  const double within = to_seconds(totals.axis_ns()) / steps;
  const char* const inner = lines.stages() != nullptr ? parallel::kStageAxis : parallel::kModelAxis;
  s.exposed_by_axis = {{parallel::kDataAxis, to_seconds(totals.exposed_ns()) / steps - within},
                       {inner, within}};
}

}  // namespace

// Once; every rank at the same step.
Task<Status> LockStepWorker::write_trace() {
  if (traced_ || c_.job.train.trace_steps == 0 || rt_.is_phantom()) co_return Status();
  traced_ = true;
  TR_CO_RETURN_IF_ERROR(co_await drain());
  const std::vector<exec::Profile> profiles = replica_->profiles();
  Result<std::string> text = co_await engine::gather_trace(rt_, group_, plan(), spans_, profiles);
  if (!text.ok()) co_return text.status();
  if (!writes()) co_return Status();
  co_return co_await rt_.files().write_atomic(c_.run_dir + "/trace.json", as_bytes(*text));
}

record::WorkerShare LockStepWorker::own_share() const {
  record::WorkerShare s;
  s.worker = group_.rank();
  s.steps = measured_steps_;
  s.samples = totals_.shard_samples() / std::max(1, plan().logical_shards);
  s.compute_seconds = to_seconds(totals_.compute_ns());
  s.exposed_seconds = to_seconds(totals_.exposed_ns());
  s.data_seconds = to_seconds(totals_.data_ns());
  s.staleness = totals_.ages();
  if (group_.world() == 1) s.compute_seconds += std::exchange(s.exposed_seconds, 0);
  s.bytes_sent = static_cast<double>(group_.stats().bytes_sent);
  const prepare::Prepared& prepared = *start_.prepared;
  const auto memory = prepare::estimate_rank(c_.job, prepared, rt_.compute_threads(), lines_->replica());
  if (memory.ok()) s.predicted_bytes = static_cast<double>(memory->total_bytes());
  if (const std::optional<Json> gpu = prepare::gpu_memory(c_.job, prepared))
    s.peak_bytes = gpu->value("measured_bytes", 0.0);
  else if (c_.owns_process)
    s.peak_bytes = static_cast<double>(host_memory().peak_bytes);
  return s;
}

// What rank 0 encoded, told as rules report what they encode on the host.
void LockStepWorker::report_codec_on_gpu(const comm::SumStats& coded, record::Summary& s) const {
  s.rule["encoded_on"] = "cuda";
  s.rule["encoded_messages"] = static_cast<double>(coded.messages);
  s.rule["encoded_bytes"] = coded.bytes;
  s.rule["encode_seconds"] = to_seconds(coded.encode_ns);
  s.rule["decode_seconds"] = to_seconds(coded.decode_ns);
  if (device_sum_->method() != "staged" || coded.messages == 0 || s.bytes_dense_per_step == 0) return;
  // All shards' messages pass once, down or up.
  const double buckets = static_cast<double>(plan().buckets.size());
  const double message = coded.bytes / static_cast<double>(coded.messages);
  s.rule["host_copies_per_byte"] = message * buckets * plan().logical_shards / s.bytes_dense_per_step;
}

record::Summary LockStepWorker::summarise() const {
  record::Summary s = account_.begin_summary(c_.num_workers_of(group_.world()), group_.world());
  s.device = start_.prepared->device != nullptr ? "cuda" : "cpu";
  const double n = static_cast<double>(std::max<std::int64_t>(1, measured_steps_));
  s.bytes_sent_per_step = static_cast<double>(group_.stats().bytes_sent) / n;
  s.compute_seconds = to_seconds(totals_.compute_ns()) / n;
  s.exposed_seconds = to_seconds(totals_.exposed_ns()) / n;
  s.data_wait_seconds = to_seconds(totals_.data_ns()) / n;
  if (group_.world() == 1) {  // it waits for nobody: what is behind backward are updates
    s.compute_seconds += s.exposed_seconds;
    s.exposed_seconds = 0;
  }
  s.per_worker = shares_;
  for (const record::WorkerShare& share : shares_)
    for (const auto& [age, count] : share.staleness) s.staleness[age] += count;
  if (lines_->parts() != nullptr || plan().tiles > 1) {
    s.mesh = mesh_text(plan().mesh());
    s.style = c_.job.options.text(job::kStyle);
    s.tiles = plan().tiles;
    report_mesh(*lines_, totals_, n, s);
  }
  s.zero = plan().zero_level();
  s.rule = replica_->rule().report().more;  // of rank 0
  if (start_.prepared->resident && lines_->data().world() > 1) {
    const std::int32_t shards = own_run().count;
    s.rule["device_collectives"] = device_sum_ != nullptr ? device_sum_->method() : "staged";
    s.rule["host_copies_per_byte"] = device_sum_ != nullptr ? 0 : shards + 1;  // of a gradient, on this rank
  }
  if (start_.prepared->device != nullptr && lines_->model() != nullptr) {
    const bool there = model_exchange_ != nullptr;
    s.rule["axis_collectives"] = there ? model_exchange_->method() : "staged";
    s.rule["axis_host_copies_per_byte"] = there ? 0 : 2;  // of what this rank brings and gets
  }
  if (const comm::SumStats* coded = device_sum_ != nullptr ? device_sum_->coding() : nullptr)
    report_codec_on_gpu(*coded, s);
  if (const std::optional<Json> memory = prepare::gpu_memory(c_.job, *start_.prepared))
    s.rule["gpu_memory"] = *memory;
  if (!codec_changes_.empty()) s.rule["codec_changes"] = codec_changes_;
  record::take_memory(shares_.empty() ? std::vector{own_share()} : shares_, s);
  s.measured_step_seconds = to_seconds(account_.train_ns()) / n;
  s.finished = at().batches >= total_batches() || at().has_ended();
  account_.complete(s);
  return s;
}

}  // namespace trireme::train
