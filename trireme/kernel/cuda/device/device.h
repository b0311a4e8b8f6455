// CudaDevice: one GPU with its context, memory and loaded libraries. CudaStream: work in order on it.
//
// Internal to kernel/cuda and exec. Driver API only (primary context), so it lives with libraries that use
// the runtime API. Every function may be called from any thread; one stream is used by one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trireme/kernel/cuda/cuda.h"
#include "trireme/kernel/cuda/device/libraries.h"

namespace trireme::kernel::cuda {

// A compiled __global__ function. Lives as long as its device.
struct Function {
  CUfunction handle = nullptr;
  std::string name;
};

struct DeviceFacts {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  // at most, after opting in
};

struct MemoryBook;  // device.cc

class CudaDevice final : public Device {
 public:
  static Result<std::shared_ptr<CudaDevice>> open(int ordinal);
  // Compiles kernels of compute capability 9.0 and does nothing else: for machines without a GPU. Functions
  // have no handle, memory cannot be had.
  static Result<std::shared_ptr<CudaDevice>> open_for_compiling();
  bool only_compiles() const { return context_ == nullptr; }
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return facts_.name; }
  // 512-byte aligned. kExhausted names what was asked for and what is free.
  Result<Buffer> allocate(std::size_t bytes) override;
  // Page-locked host memory that the device reaches directly: copies from and to it run beside kernels.
  Result<Buffer> allocate_pinned(std::size_t bytes);
  Status copy(const Buffer& from, const Buffer& to, DeviceStream* stream) override;
  std::unique_ptr<DeviceStream> make_stream() override;
  std::unique_ptr<CudaStream> make_cuda_stream();

  const DeviceFacts& facts() const { return facts_; }
  const Libraries& lib() const { return *lib_; }
  CUdevice raw() const { return device_; }
  cublasLtHandle_t blas() const { return blas_; }  // thread-safe
  // For making cuDNN plans, under its lock: planning is not thread-safe on one handle.
  struct Planning {
    std::unique_lock<std::mutex> lock;
    cudnnHandle_t handle = nullptr;
  };
  Result<Planning> planning_handle();
  std::size_t bytes_in_use() const;
  std::size_t peak_bytes() const;

  // The function `name` of CUDA C++ `source`, compiled once per text for this GPU; the prelude (prelude.cu)
  // comes before it. The entry must be extern "C" __global__. A text that does not compile is a defect:
  // kInternal with the compiler's log.
  Result<const Function*> function(const std::string& source, const std::string& name);
  // Makes the context current on the calling thread. First line of whatever calls the driver or a library.
  void enter() const;

 private:
  explicit CudaDevice(std::shared_ptr<const Libraries> lib);
  struct Modules;
  Result<std::string> compile(const std::string& text, const std::string& name) const;
  Result<CUmodule> module_of(const std::string& text, const std::string& name);

  std::shared_ptr<const Libraries> lib_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  DeviceFacts facts_;
  cublasLtHandle_t blas_ = nullptr;
  std::mutex planning_mutex_;
  cudnnHandle_t planning_ = nullptr;
  std::shared_ptr<MemoryBook> book_;
  std::unique_ptr<Modules> modules_;
};

// Captured work, replayed with one launch.
class CudaGraph {
 public:
  virtual ~CudaGraph() = default;
  virtual Status launch(CudaStream& stream) = 0;
  virtual std::size_t num_nodes() const = 0;
};

class CudaStream final : public DeviceStream {
 public:
  explicit CudaStream(CudaDevice& device);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  std::shared_ptr<Event> record() override;
  std::shared_ptr<Event> record_with_time();  // an event that ns_between takes
  void wait(const std::shared_ptr<Event>& e) override;
  Status synchronize();  // everything so far has ended; the first failure of the device comes here
  // What is enqueued between the two goes into a graph instead of running.
  Status begin_capture();
  Result<std::unique_ptr<CudaGraph>> end_capture();

  CudaDevice& device() const { return device_; }
  CUstream raw() const { return raw_; }
  Result<cudnnHandle_t> cudnn();  // this stream's own, made when first asked for

 private:
  std::shared_ptr<Event> record(unsigned kind);

  CudaDevice& device_;
  CUstream raw_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;
};

// What KernelStream says of its events.
Status wait_on_host(const Event& point);
Result<double> ns_between(const std::shared_ptr<Event>& first, const std::shared_ptr<Event>& second);

// ---- For kernels

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};

Status launch_raw(CudaStream& stream, const Function& f, Dim grid, Dim block, std::size_t shared_bytes,
                  void** args);

// Arguments must have exactly the types of the kernel's parameters (pointers as `void*` or typed).
template <typename... Args>
Status launch(CudaStream& stream, const Function& f, Dim grid, Dim block, std::size_t shared_bytes,
              Args... args) {
  void* pointers[] = {static_cast<void*>(&args)..., nullptr};
  return launch_raw(stream, f, grid, block, shared_bytes, pointers);
}

// Blocks of `threads` for n elements, `per_thread` each; at least 1 and at most `most` (kernels loop over the
// grid).
unsigned blocks_for(std::int64_t n, int threads, int per_thread = 1, unsigned most = 1U << 20);

// A kernel whose enqueue is a function object: `make_kernel([=](const CudaArgs& a) -> Status { ... })`.
template <typename F>
std::unique_ptr<CudaKernel> make_kernel(F enqueue, std::size_t workspace_bytes = 0) {
  class Made final : public CudaKernel {
   public:
    Made(F f, std::size_t bytes) : f_(std::move(f)), bytes_(bytes) {}
    std::size_t workspace_bytes() const override { return bytes_; }
    Status enqueue(const CudaArgs& args) const override { return f_(args); }

   private:
    F f_;
    std::size_t bytes_;
  };
  return std::make_unique<Made>(std::move(enqueue), workspace_bytes);
}

// CUDA C++ names of element types as the prelude defines them: float, double, bf16, half, long long, int,
// unsigned char, bool.
const char* cuda_type(DType dtype);

}  // namespace trireme::kernel::cuda
