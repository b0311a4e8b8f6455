#include "trireme/exec/device_ahead.h"

#include <cstring>

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::exec {

namespace gpu = kernel::cuda;

namespace {

Status copy(gpu::KernelStream& stream, const Tensor& from, const Tensor& to) {
  const std::size_t bytes = from.type().num_bytes();
  return stream.copy(from.buffer().slice(from.offset_bytes(), bytes),
                     to.buffer().slice(to.offset_bytes(), bytes));
}

}  // namespace

DeviceAhead::DeviceAhead(std::shared_ptr<Device> device) : device_(std::move(device)) {
  gpu::CudaDevice* const cuda = gpu::as_cuda(device_.get());
  TR_CHECK(cuda != nullptr, "copies ahead to {}, which is no GPU", device_->name());
  stream_ = gpu::make_kernel_stream(*cuda);
}

DeviceAhead::~DeviceAhead() { stream_.reset(); }  // waits for copies under way

Result<Tensor> DeviceAhead::allocate(const TensorType& type) {
  const std::size_t bytes = type.num_bytes();
  TR_ASSIGN_OR_RETURN(const Buffer memory, gpu::allocate_pinned(*gpu::as_cuda(device_.get()), bytes));
  std::memset(memory.data(), 0, bytes);
  Item item;
  item.host = Tensor(memory, type);
  TR_ASSIGN_OR_RETURN(item.device, Tensor::allocate(*device_, type));
  const Tensor host = item.host;
  const std::lock_guard hold(mutex_);
  items_[memory.data()] = std::move(item);
  return host;
}

void DeviceAhead::free(const Tensor& host) {
  const std::lock_guard hold(mutex_);
  const auto at = items_.find(host.raw());
  if (at == items_.end()) return;
  (void)stream_->synchronize();
  items_.erase(at);
}

bool DeviceAhead::has(const Tensor& host) const {
  const std::lock_guard hold(mutex_);
  return items_.contains(host.raw());
}

bool DeviceAhead::is_settled(const Tensor& host) const {
  const std::lock_guard hold(mutex_);
  const auto at = items_.find(host.raw());
  return at == items_.end() || at->second.arrived == nullptr || at->second.arrived->is_ready();
}

Status DeviceAhead::settle(const Tensor& host) {
  return is_settled(host) ? Status() : stream_->synchronize();
}

Status DeviceAhead::send(const Tensor& host) {
  const std::lock_guard hold(mutex_);
  const auto at = items_.find(host.raw());
  if (at == items_.end()) return {};
  Item& item = at->second;
  if (item.used != nullptr) stream_->wait(item.used);
  TR_RETURN_IF_ERROR(copy(*stream_, item.host, item.device));
  item.arrived = stream_->record();
  return {};
}

Result<bool> DeviceAhead::receive(const Tensor& host, const Tensor& to, gpu::KernelStream& stream) {
  const std::lock_guard hold(mutex_);
  const auto at = items_.find(host.raw());
  if (at == items_.end() || at->second.arrived == nullptr || at->second.host.type() != host.type())
    return false;
  Item& item = at->second;
  stream.wait(item.arrived);
  TR_RETURN_IF_ERROR(copy(stream, item.device, to));
  item.used = stream.record();
  return true;
}

std::size_t DeviceAhead::device_bytes() const {
  const std::lock_guard hold(mutex_);
  std::size_t bytes = 0;
  for (const auto& [at, item] : items_) bytes += item.device.type().num_bytes();
  return bytes;
}

}  // namespace trireme::exec
