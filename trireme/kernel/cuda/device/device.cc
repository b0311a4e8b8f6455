#include "trireme/kernel/cuda/device/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "trireme/kernel/cuda/cuda.h"
#include "trireme/kernel/cuda/device/modules.h"

namespace trireme::kernel::cuda {

// What is allocated. Shared with the owners of buffers, which may outlive nobody but the context.
struct MemoryBook {
  std::atomic<std::size_t> in_use{0}, peak{0};

  void add(std::size_t bytes) {
    const std::size_t now = in_use += bytes;
    std::size_t before = peak.load();
    while (before < now && !peak.compare_exchange_weak(before, now)) {
    }
  }
};

namespace {

// CUDA's own states are per thread; a stream or buffer may be used from any.
class CudaEvent final : public Event {
 public:
  CudaEvent(const CudaDevice& device, CUevent raw) : device_(device), raw_(raw) {}
  ~CudaEvent() override {
    device_.enter();
    device_.lib().cuEventDestroy(raw_);
  }
  bool is_ready() const override {
    device_.enter();
    return device_.lib().cuEventQuery(raw_) != CUDA_ERROR_NOT_READY;
  }
  Status wait() const {
    device_.enter();
    return device_.lib().check(device_.lib().cuEventSynchronize(raw_), "running kernels");
  }
  Result<double> ns_until(const CudaEvent& later) const {
    float ms = 0;
    TR_RETURN_IF_ERROR(
        device_.lib().check(device_.lib().cuEventElapsedTime(&ms, raw_, later.raw_), "reading the time"));
    return static_cast<double>(ms) * 1e6;
  }
  CUevent raw() const { return raw_; }

 private:
  const CudaDevice& device_;
  CUevent raw_;
};

class CapturedGraph final : public CudaGraph {
 public:
  CapturedGraph(const CudaDevice& device, CUgraphExec exec, std::size_t num_nodes)
      : device_(device), exec_(exec), num_nodes_(num_nodes) {}
  ~CapturedGraph() override {
    device_.enter();
    device_.lib().cuGraphExecDestroy(exec_);
  }
  Status launch(CudaStream& stream) override {
    device_.enter();
    return device_.lib().check(device_.lib().cuGraphLaunch(exec_, stream.raw()), "launching a captured step");
  }
  std::size_t num_nodes() const override { return num_nodes_; }

 private:
  const CudaDevice& device_;
  CUgraphExec exec_;
  std::size_t num_nodes_;
};

CUdeviceptr address(const std::byte* p) { return reinterpret_cast<CUdeviceptr>(p); }

Status read_facts(const Libraries& lib, CUdevice device, DeviceFacts& facts) {
  char name[128] = "";
  TR_RETURN_IF_ERROR(lib.check(lib.cuDeviceGetName(name, sizeof name, device), "reading the GPU's name"));
  facts.name = name;
  const auto read = [&](CUdevice_attribute what, int& to) {
    return lib.check(lib.cuDeviceGetAttribute(&to, what, device), "reading the GPU's attributes");
  };
  int shared = 0;
  TR_RETURN_IF_ERROR(read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, facts.major));
  TR_RETURN_IF_ERROR(read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, facts.minor));
  TR_RETURN_IF_ERROR(read(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, facts.multiprocessors));
  TR_RETURN_IF_ERROR(read(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, shared));
  facts.shared_bytes_per_block = static_cast<std::size_t>(shared);
  return lib.check(lib.cuDeviceTotalMem(&facts.memory_bytes, device), "reading the GPU's memory");
}

}  // namespace

Result<double> ns_between(const std::shared_ptr<Event>& first, const std::shared_ptr<Event>& second) {
  if (first == nullptr || second == nullptr) return error(Code::kExhausted, "[cuda] no event for a time");
  const auto &a = static_cast<const CudaEvent&>(*first), &b = static_cast<const CudaEvent&>(*second);
  TR_RETURN_IF_ERROR(a.wait());
  TR_RETURN_IF_ERROR(b.wait());
  return a.ns_until(b);
}

Status wait_on_host(const Event& point) { return static_cast<const CudaEvent&>(point).wait(); }

Result<std::shared_ptr<CudaDevice>> CudaDevice::open(int ordinal) {
  TR_ASSIGN_OR_RETURN(auto lib, Libraries::load());
  TR_RETURN_IF_ERROR(lib->check(lib->cuInit(0), "starting the NVIDIA driver"));
  int count = 0;
  TR_RETURN_IF_ERROR(lib->check(lib->cuDeviceGetCount(&count), "counting GPUs"));
  if (count == 0)
    return Status(Code::kUnavailable, "[cuda] this machine has no GPU; train with --device cpu");
  ordinal %= count;
  std::shared_ptr<CudaDevice> device(new CudaDevice(lib));
  TR_RETURN_IF_ERROR(lib->check(lib->cuDeviceGet(&device->device_, ordinal), "opening a GPU"));
  TR_RETURN_IF_ERROR(read_facts(*lib, device->device_, device->facts_));
  TR_RETURN_IF_ERROR(lib->check(lib->cuDevicePrimaryCtxRetain(&device->context_, device->device_),
                                "making the GPU's context"));
  device->enter();
  device->book_ = std::make_shared<MemoryBook>();
  device->modules_ = std::make_unique<Modules>();
  TR_RETURN_IF_ERROR(lib->check(lib->cublasLtCreate(&device->blas_), "starting cuBLASLt"));
  return device;
}

Result<std::shared_ptr<CudaDevice>> CudaDevice::open_for_compiling() {
  TR_ASSIGN_OR_RETURN(auto lib, Libraries::load_compiler());
  std::shared_ptr<CudaDevice> device(new CudaDevice(std::move(lib)));
  device->facts_ = {"compiler of sm_90", 9, 0, 132, 0, 227 * 1024};
  device->book_ = std::make_shared<MemoryBook>();
  device->modules_ = std::make_unique<Modules>();
  return device;
}

CudaDevice::CudaDevice(std::shared_ptr<const Libraries> lib) : lib_(std::move(lib)) {}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr) return;
  enter();
  lib_->cuCtxSynchronize();
  if (planning_ != nullptr) lib_->cudnnDestroy(planning_);
  if (blas_ != nullptr) lib_->cublasLtDestroy(blas_);
  modules_->unload(*lib_);
  lib_->cuDevicePrimaryCtxRelease(device_);
}

void CudaDevice::enter() const {
  if (context_ != nullptr) lib_->cuCtxSetCurrent(context_);
}

std::size_t CudaDevice::bytes_in_use() const { return book_->in_use; }
std::size_t CudaDevice::peak_bytes() const { return book_->peak; }

Result<Buffer> CudaDevice::allocate(std::size_t bytes) {
  if (only_compiles())
    return error(Code::kUnavailable, "[cuda] {} bytes asked of a device that only compiles", bytes);
  enter();
  CUdeviceptr p = 0;
  const CUresult result = lib_->cuMemAlloc(&p, std::max<std::size_t>(bytes, 1));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    std::size_t free = 0, total = 0;
    lib_->cuMemGetInfo(&free, &total);
    return error(
        Code::kExhausted,
        "[cuda] {} of GPU memory asked for, {} of {} are free; use a smaller train.batch or a narrower "
        "train.precision",
        bytes, free, total);
  }
  TR_RETURN_IF_ERROR(lib_->check(result, "allocating GPU memory"));
  book_->add(bytes);
  std::shared_ptr<void> owner(reinterpret_cast<void*>(p),
                              [lib = lib_, book = book_, bytes, context = context_](void* q) {
                                lib->cuCtxSetCurrent(context);
                                lib->cuMemFree(reinterpret_cast<CUdeviceptr>(q));
                                book->in_use -= bytes;
                              });
  return Buffer::wrap(*this, reinterpret_cast<std::byte*>(p), bytes, std::move(owner));
}

Result<Buffer> CudaDevice::allocate_pinned(std::size_t bytes) {
  enter();
  void* p = nullptr;
  TR_RETURN_IF_ERROR(
      lib_->check(lib_->cuMemHostAlloc(&p, std::max<std::size_t>(bytes, 1), CU_MEMHOSTALLOC_PORTABLE),
                  "allocating page-locked memory"));
  std::shared_ptr<void> owner(p, [lib = lib_, context = context_](void* q) {
    lib->cuCtxSetCurrent(context);
    lib->cuMemFreeHost(q);
  });
  return Buffer::wrap(cpu_device(), static_cast<std::byte*>(p), bytes, std::move(owner));
}

Status CudaDevice::copy(const Buffer& from, const Buffer& to, DeviceStream* stream) {
  if (from.is_phantom() || to.is_phantom()) return {};
  TR_CHECK(from.size_bytes() <= to.size_bytes());
  if (from.size_bytes() == 0) return {};
  enter();
  if (stream == nullptr) {
    TR_RETURN_IF_ERROR(lib_->check(
        lib_->cuMemcpy(address(to.data()), address(from.data()), from.size_bytes()), "copying memory"));
    // From pageable memory it may return while the last bytes are on their way, and our streams do not wait
    // for it.
    return lib_->check(lib_->cuStreamSynchronize(nullptr), "copying memory");
  }
  auto* own = static_cast<CudaStream*>(stream);
  return lib_->check(
      lib_->cuMemcpyAsync(address(to.data()), address(from.data()), from.size_bytes(), own->raw()),
      "copying memory");
}

std::unique_ptr<DeviceStream> CudaDevice::make_stream() { return std::make_unique<CudaStream>(*this); }
std::unique_ptr<CudaStream> CudaDevice::make_cuda_stream() { return std::make_unique<CudaStream>(*this); }

Result<CudaDevice::Planning> CudaDevice::planning_handle() {
  Planning out{std::unique_lock(planning_mutex_), nullptr};
  enter();
  if (planning_ == nullptr) TR_RETURN_IF_ERROR(lib_->check(lib_->cudnnCreate(&planning_), "starting cuDNN"));
  out.handle = planning_;
  return out;
}

CudaStream::CudaStream(CudaDevice& device) : device_(device) {
  device.enter();
  const CUresult made = device.lib().cuStreamCreate(&raw_, CU_STREAM_NON_BLOCKING);
  TR_CHECK(made == CUDA_SUCCESS, "a stream cannot be made: error {}", static_cast<int>(made));
}

CudaStream::~CudaStream() {
  device_.enter();
  device_.lib().cuStreamSynchronize(raw_);
  if (cudnn_ != nullptr) device_.lib().cudnnDestroy(cudnn_);
  device_.lib().cuStreamDestroy(raw_);
}

std::shared_ptr<Event> CudaStream::record() { return record(CU_EVENT_DISABLE_TIMING); }
std::shared_ptr<Event> CudaStream::record_with_time() { return record(CU_EVENT_DEFAULT); }

std::shared_ptr<Event> CudaStream::record(unsigned kind) {
  device_.enter();
  CUevent raw = nullptr;
  if (device_.lib().cuEventCreate(&raw, kind) != CUDA_SUCCESS) return nullptr;
  auto event = std::make_shared<CudaEvent>(device_, raw);
  device_.lib().cuEventRecord(raw, raw_);
  return event;
}

void CudaStream::wait(const std::shared_ptr<Event>& e) {
  if (e == nullptr) return;
  device_.enter();
  device_.lib().cuStreamWaitEvent(raw_, static_cast<const CudaEvent&>(*e).raw(), 0);
}

Status CudaStream::synchronize() {
  device_.enter();
  return device_.lib().check(device_.lib().cuStreamSynchronize(raw_), "running kernels");
}

Status CudaStream::begin_capture() {
  device_.enter();
  return device_.lib().check(device_.lib().cuStreamBeginCapture(raw_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                             "capturing a step");
}

Result<std::unique_ptr<CudaGraph>> CudaStream::end_capture() {
  device_.enter();
  const Libraries& lib = device_.lib();
  CUgraph graph = nullptr;
  TR_RETURN_IF_ERROR(lib.check(lib.cuStreamEndCapture(raw_, &graph), "capturing a step"));
  CUgraphExec exec = nullptr;
  std::size_t num_nodes = 0;
  lib.cuGraphGetNodes(graph, nullptr, &num_nodes);
  const CUresult made = lib.cuGraphInstantiate(&exec, graph, 0);
  lib.cuGraphDestroy(graph);
  TR_RETURN_IF_ERROR(lib.check(made, "making a graph of a captured step"));
  return std::unique_ptr<CudaGraph>(std::make_unique<CapturedGraph>(device_, exec, num_nodes));
}

Result<cudnnHandle_t> CudaStream::cudnn() {
  device_.enter();
  if (cudnn_ == nullptr) {
    TR_RETURN_IF_ERROR(device_.lib().check(device_.lib().cudnnCreate(&cudnn_), "starting cuDNN"));
    TR_RETURN_IF_ERROR(device_.lib().check(device_.lib().cudnnSetStream(cudnn_, raw_), "starting cuDNN"));
  }
  return cudnn_;
}

Status launch_raw(CudaStream& stream, const Function& f, Dim grid, Dim block, std::size_t shared_bytes,
                  void** args) {
  const Libraries& lib = stream.device().lib();
  stream.device().enter();
  const CUresult result =
      lib.cuLaunchKernel(f.handle, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                         static_cast<unsigned>(shared_bytes), stream.raw(), args, nullptr);
  if (result == CUDA_SUCCESS) return {};
  return lib.check(result, fmt::format("launching {} with grid {}x{}x{} of {}x{}x{}", f.name, grid.x, grid.y,
                                       grid.z, block.x, block.y, block.z)
                               .c_str());
}

unsigned blocks_for(std::int64_t n, int threads, int per_thread, unsigned most) {
  const std::int64_t each = static_cast<std::int64_t>(threads) * per_thread;
  return static_cast<unsigned>(std::clamp<std::int64_t>((n + each - 1) / each, 1, most));
}

const char* cuda_type(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "double";
    case DType::kF32:
      return "float";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "half";
    case DType::kI64:
      return "i64";
    case DType::kI32:
      return "i32";
    case DType::kU8:
      return "u8";
    case DType::kBool:
      return "bool";
  }
  return "float";
}

}  // namespace trireme::kernel::cuda
