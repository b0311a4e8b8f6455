// What a Replica does where its model stays on a GPU: its memory there, and when the host looks at it.
#include <algorithm>
#include <cmath>

#include "trireme/engine/replica_parts.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::engine {

using runtime::Task;

Status Replica::Parts::make_mirror() {
  if (prepared->device != nullptr && !links.one_batch)
    ahead = std::make_shared<exec::DeviceAhead>(prepared->device);
  if (!prepared->resident) return {};
  mirror = std::make_unique<exec::DeviceMirror>(prepared->device);
  arena = std::make_unique<SharedArena>(prepared->device);
  make_queue();
  for (const std::string& name : variables.names()) TR_RETURN_IF_ERROR(mirror->add(*variables.get(name)));
  return mirror->upload_all();
}

// A traced step is waited for, kernel by kernel.
void Replica::Parts::make_queue() {
  if (plan().logical_shards > 1 || links.device_sum != nullptr || job.train.trace_steps > 0) return;
  Result<Buffer> locked = kernel::cuda::allocate_pinned(*kernel::cuda::as_cuda(prepared->device.get()), 8);
  if (!locked.ok()) return;  // steps are waited for instead
  queued_metrics = Tensor(std::move(*locked), {DType::kF32, {2}});
  gpu_queue = std::make_shared<exec::DeviceQueue>(prepared->device);
}

// On a GPU the loss is looked at once, before anything leaves.
Status Replica::Parts::look_at_loss(std::size_t shard) {
  looked[shard] = true;
  const Tensor metrics = metrics_of(shards[shard].buckets.back());
  if (mirror != nullptr) {
    const Tensor there = metrics_of(shards[shard].on_gpu.back());
    TR_RETURN_IF_ERROR(copy_on_gpu(there, metrics));
    if (wishes() > 0 && shard == 0) {
      metrics.data<float>()[2] = wishes();
      TR_RETURN_IF_ERROR(copy_on_gpu(metrics, there));
    }
  }
  if (!skips() && !std::isfinite(*metrics.data<float>()) && broken_shard < 0)
    broken_shard = static_cast<int>(shard);
  return {};
}

// It is there before backward begins, which goes on meanwhile.
Task<Status> Replica::Parts::wait_for_loss() {
  const std::shared_ptr<Event> written = std::exchange(loss_written, nullptr);
  Status status;
  runtime::ComputeFn wait = [&](runtime::ComputeContext&) { status = gpu_queue->wait_for(written); };
  const cost::OpCost nothing;
  co_await rt.compute(nothing, std::move(wait), 1, "wait for the loss");
  TR_CO_RETURN_IF_ERROR(status);
  const float* from = queued_metrics.data<float>();
  std::copy_n(from, 2, metrics_of(shards[0].buckets.back()).data<float>());
  if (!skips() && !std::isfinite(*from)) broken_shard = 0;
  co_return Status();
}

Task<Status> Replica::Parts::wait_for_queue() {
  Status status;
  if (gpu_queue == nullptr) co_return status;
  runtime::ComputeFn wait = [&](runtime::ComputeContext&) { status = gpu_queue->wait(); };
  const cost::OpCost nothing;
  co_await rt.compute(nothing, std::move(wait), 1, "wait for the GPU");
  co_return status;
}

Status Replica::Parts::keep_batch() {
  for (const prepare::BatchTensors& b : batch)
    for (const Tensor* t : b.all()) {
      if (t->is_null() || t->type().num_bytes() == 0) continue;
      TR_RETURN_IF_ERROR(mirror->add(*t));
      TR_RETURN_IF_ERROR(mirror->upload(*t));
    }
  return {};
}

}  // namespace trireme::engine
