#include "trireme/exec/device_queue.h"

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::exec {

namespace gpu = kernel::cuda;

DeviceQueue::DeviceQueue(std::shared_ptr<Device> device) : device_(std::move(device)) {
  gpu::CudaDevice* const cuda = gpu::as_cuda(device_.get());
  TR_CHECK(cuda != nullptr, "a queue of {}, which is no GPU", device_->name());
  stream_ = gpu::make_kernel_stream(*cuda);
}

DeviceQueue::~DeviceQueue() { stream_.reset(); }  // waits for what is on it

Status DeviceQueue::wait() { return stream_->synchronize(); }

std::shared_ptr<Event> DeviceQueue::record() {
  const auto mine = turn();
  return stream_->record();
}

Status DeviceQueue::wait_for(const std::shared_ptr<Event>& point) {
  return point == nullptr ? Status() : stream_->wait_on_host(*point);
}

void DeviceQueue::watch() {
  const auto mine = turn();
  watching_ = true;
  works_.clear();
  watched_ = {};
}

void DeviceQueue::work_begins() {
  if (watching_) works_.push_back({stream_->record_with_time(), nullptr});
}

void DeviceQueue::work_ends(std::size_t launches) {
  if (!watching_) return;
  works_.back().end = stream_->record_with_time();
  watched_.launches += static_cast<std::int64_t>(launches);
}

Result<DeviceQueue::Watched> DeviceQueue::watched() {
  const auto mine = turn();
  watching_ = false;
  const std::vector<Work> works = std::exchange(works_, {});
  for (std::size_t i = 0; i < works.size(); ++i) {
    TR_ASSIGN_OR_RETURN(const double busy, stream_->ns_between(works[i].begin, works[i].end));
    watched_.busy_ns += busy;
    if (i == 0) continue;
    TR_ASSIGN_OR_RETURN(const double idle, stream_->ns_between(works[i - 1].end, works[i].begin));
    watched_.idle_ns += idle;
  }
  return watched_;
}

}  // namespace trireme::exec
