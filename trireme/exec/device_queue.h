// DeviceQueue: a stream of a GPU that several Executions put their work on, one behind the other, so that the
// host need not wait between them (ExecutionOptions::queue).
//
// Called from any thread.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "trireme/tensor/device.h"

namespace trireme::kernel::cuda {
class KernelStream;
}

namespace trireme::exec {

class DeviceQueue {
 public:
  explicit DeviceQueue(std::shared_ptr<Device> device);
  ~DeviceQueue();

  // All that was put on it so far has ended. The first failure of the GPU comes here.
  Status wait();
  // A point of it is reached; null: it is.
  Status wait_for(const std::shared_ptr<Event>& point);
  std::shared_ptr<Event> record();  // the point behind what was put on it so far

  // What the GPU did of it from watch() on: launches (kernels and copies), and how long it had work and
  // waited for the next. Times are of the GPU, by events around every strand.
  struct Watched {
    std::int64_t launches = 0;
    double busy_ns = 0, idle_ns = 0;
  };
  void watch();
  Result<Watched> watched();  // waits for all, and ends it

  // Who puts work on the stream holds the turn, and says how much it was.
  kernel::cuda::KernelStream& stream() { return *stream_; }
  [[nodiscard]] std::unique_lock<std::mutex> turn() { return std::unique_lock(mutex_); }
  void work_begins();
  void work_ends(std::size_t launches);

 private:
  struct Work {
    std::shared_ptr<Event> begin, end;
  };
  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::unique_ptr<kernel::cuda::KernelStream> stream_;
  bool watching_ = false;
  std::vector<Work> works_;
  Watched watched_;
};

}  // namespace trireme::exec
