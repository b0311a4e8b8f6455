// Session: one stream of a GPU for whoever runs kernels, without a CUDA header.
#pragma once

#include <functional>
#include <memory>

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

// Captured work of a Session.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual std::size_t num_launches() const = 0;  // kernels and copies in it
};

// The host waits until a point of a session is reached.
Status wait_on_host(const Event& point);

// Used by one thread at a time.
class Session {
 public:
  explicit Session(CudaDevice& device);
  ~Session();

  Status enqueue(const CudaKernel& kernel, std::span<const Tensor> in, std::span<const Tensor> out,
                 std::byte* workspace);
  // Kernels that go with the first, in one launch where it can be.
  struct Call {
    const CudaKernel* kernel;
    std::span<const Tensor> in, out;
    std::byte* workspace;
  };
  Status enqueue_all(std::span<const Call> calls);
  // Between host and device, or on the device; in order with kernels.
  Status copy(const Buffer& from, const Buffer& to);
  // What `work` enqueues, to be launched again and again.
  Result<std::unique_ptr<Replay>> capture(const std::function<Status()>& work);
  Status launch(Replay& replay);
  Status synchronize();                            // all of it has ended
  std::shared_ptr<Event> record();                 // the end of what is enqueued so far; null: reached
  void wait(const std::shared_ptr<Event>& event);  // what is enqueued from now on comes behind it
  void enter() const;                              // the calling thread works on this GPU from now on
  void* raw_stream() const;                        // CUstream, for libraries
  CudaStream& stream() { return *stream_; }

 private:
  std::unique_ptr<CudaStream> stream_;
};

// A point that keeps its time (null: out of memory), and what lies between two such.
std::shared_ptr<Event> record_with_time(Session& session);
Result<double> ns_between(const std::shared_ptr<Event>& first, const std::shared_ptr<Event>& second);

}  // namespace trireme::kernel::cuda
