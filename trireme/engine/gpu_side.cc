#include "trireme/engine/gpu_side.h"

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::engine {

GpuSide GpuSide::make(const std::shared_ptr<Device>& device, bool ahead, bool resident, bool queued) {
  GpuSide side;
  side.device = device;
  if (device == nullptr) return side;
  if (ahead) side.ahead = std::make_shared<exec::DeviceAhead>(device);
  if (!resident) return side;
  side.mirror = std::make_unique<exec::DeviceMirror>(device);
  side.arena = std::make_unique<SharedArena>(device);
  if (!queued) return side;
  Result<Buffer> locked = kernel::cuda::allocate_pinned(*kernel::cuda::as_cuda(device.get()), 8);
  if (!locked.ok()) return side;  // steps are waited for instead
  side.queued_metrics = Tensor(std::move(*locked), {DType::kF32, {2}});
  side.queue = std::make_shared<exec::DeviceQueue>(device);
  return side;
}

Status GpuSide::copy(const Tensor& from, const Tensor& to) const {
  const std::size_t bytes = from.type().num_bytes();
  if (bytes == 0) return {};
  return device->copy(from.buffer().slice(from.offset_bytes(), bytes),
                      to.buffer().slice(to.offset_bytes(), bytes), nullptr);
}

runtime::Task<Status> GpuSide::wait_for_queue(runtime::Runtime& rt) const {
  Status status;
  if (queue == nullptr) co_return status;
  runtime::ComputeFn wait = [&](runtime::ComputeContext&) { status = queue->wait(); };
  const cost::OpCost nothing;
  co_await rt.compute(nothing, std::move(wait), 1, "wait for the GPU");
  co_return status;
}

}  // namespace trireme::engine
