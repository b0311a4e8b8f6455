// The driver: devices, contexts, memory, copies. Streams are in streams.cc, modules and launches in
// modules.cc.
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/gpu_emulator/block.h"
#include "tests/gpu_emulator/streams.h"

struct CUctx_st {
  std::size_t used_bytes = 0;
};

namespace gpu_emulator {
namespace {

constexpr int kMostDevices = 8;
constexpr std::size_t kAlign = 512;
constexpr std::size_t kPage = 2 << 20;

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

int num_devices() {
  return static_cast<int>(std::min<std::uint64_t>(setting("GPU_EMULATOR_DEVICES", 1), kMostDevices));
}
// Copies to the host of so many bytes or more fail. Read at every copy: a test sets it for a while.
std::size_t failing_copy_bytes() { return setting("GPU_EMULATOR_FAILING_COPY_BYTES", SIZE_MAX); }
std::size_t memory_bytes() { return setting("GPU_EMULATOR_MEMORY_BYTES", std::uint64_t{8} << 30U); }

std::array<CUctx_st, kMostDevices>& contexts() {
  static auto* all = new std::array<CUctx_st, kMostDevices>;
  return *all;
}
thread_local CUcontext current_context = nullptr;

struct Allocation {
  std::size_t bytes = 0;
  CUcontext context = nullptr;  // null: page-locked memory of the host
  int file = -1;                // whole pages of a device: other processes may map them
  bool mapped = false;          // of another process
};
std::map<std::uintptr_t, Allocation>& allocations() {
  static auto* all = new std::map<std::uintptr_t, Allocation>;
  return *all;
}

enum class Place { device, pinned, pageable, broken };

// Where a range of bytes is; `broken` where it leaves its allocation.
Place place_of(std::uintptr_t at, std::size_t bytes) {
  auto next = allocations().upper_bound(at);
  if (next == allocations().begin()) return Place::pageable;
  const auto& [begin, a] = *std::prev(next);
  if (at >= begin + std::max<std::size_t>(a.bytes, 1)) return Place::pageable;
  if (at + bytes > begin + a.bytes) return Place::broken;
  return a.context != nullptr ? Place::device : Place::pinned;
}

void* pointer(CUdeviceptr p) { return reinterpret_cast<void*>(p); }

CUresult free_memory(std::uintptr_t at, bool of_device) {
  const std::lock_guard hold(lock());
  const auto found = allocations().find(at);
  if (found == allocations().end() || (found->second.context != nullptr) != of_device)
    return CUDA_ERROR_INVALID_VALUE;
  if (found->second.mapped) return CUDA_ERROR_INVALID_VALUE;
  run_everything();  // as the driver waits before it frees
  const Allocation a = found->second;
  if (of_device) a.context->used_bytes -= a.bytes;
  allocations().erase(found);
  if (a.file < 0) {
    std::free(reinterpret_cast<void*>(at));
  } else {
    munmap(reinterpret_cast<void*>(at), a.bytes);
    close(a.file);
  }
  return CUDA_SUCCESS;
}

bool may_share() { return setting("GPU_EMULATOR_IPC", 1) != 0; }

void* map_file(int file, std::size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : at;
}

// What a handle holds: a file that other processes find below /proc.
struct Handle {
  pid_t process;
  int file;
  std::size_t bytes;
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));

CUresult take_memory(void** p, std::size_t bytes, CUcontext context) {
  int file = -1;
  if (context != nullptr && bytes % kPage == 0 && may_share()) {
    file = memfd_create("emulated GPU memory", MFD_CLOEXEC);
    const bool sized = file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0;
    *p = sized ? map_file(file, bytes) : nullptr;
  } else {
    *p = std::aligned_alloc(kAlign, (std::max<std::size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign);
  }
  if (*p == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(*p, 0xFF, bytes);  // NaN: what is read before it is written shows
  allocations()[reinterpret_cast<std::uintptr_t>(*p)] = {bytes, context, file, false};
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace gpu_emulator

using gpu_emulator::current_context;
#define GPU_EMULATOR_LOCKED const std::lock_guard hold(gpu_emulator::lock())

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = gpu_emulator::num_devices();
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= gpu_emulator::num_devices()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::strncpy(name, "emulated GPU", static_cast<std::size_t>(size));
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
  *bytes = gpu_emulator::memory_bytes();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute what, CUdevice device) {
  switch (what) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 4;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = static_cast<int>(gpu_emulator::kSharedBytes);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      *value = device;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:  // in kHz, as the memory's
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      *value = 1'000;
      break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      *value = 4096;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = &gpu_emulator::contexts()[static_cast<std::size_t>(device)];
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext context) {
  current_context = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current_context;
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  GPU_EMULATOR_LOCKED;
  if (current_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *total = gpu_emulator::memory_bytes();
  *free = *total - std::min(*total, current_context->used_bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* p, std::size_t bytes) {
  GPU_EMULATOR_LOCKED;
  if (current_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (current_context->used_bytes + bytes > gpu_emulator::memory_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  void* made = nullptr;
  const CUresult result = gpu_emulator::take_memory(&made, bytes, current_context);
  if (result != CUDA_SUCCESS) return result;
  current_context->used_bytes += bytes;
  *p = reinterpret_cast<CUdeviceptr>(made);
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr p) { return gpu_emulator::free_memory(p, true); }

CUresult cuMemHostAlloc(void** p, std::size_t bytes, unsigned) {
  GPU_EMULATOR_LOCKED;
  return gpu_emulator::take_memory(p, bytes, nullptr);
}
CUresult cuMemFreeHost(void* p) {
  return gpu_emulator::free_memory(reinterpret_cast<std::uintptr_t>(p), false);
}

// As the driver has it: page-locked memory is read and written when the stream comes to it; from pageable
// memory the bytes are taken at once, and a copy to it is waited for.
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  using gpu_emulator::Place;
  GPU_EMULATOR_LOCKED;
  const Place source = gpu_emulator::place_of(from, bytes), target = gpu_emulator::place_of(to, bytes);
  if (source == Place::broken || target == Place::broken) return CUDA_ERROR_INVALID_VALUE;
  if (source == Place::device && target != Place::device && bytes >= gpu_emulator::failing_copy_bytes())
    return CUDA_ERROR_LAUNCH_FAILED;
  void *dst = gpu_emulator::pointer(to), *src = gpu_emulator::pointer(from);
  if (source == Place::pageable && !gpu_emulator::is_capturing(stream)) {
    std::string taken(static_cast<const char*>(src), bytes);
    gpu_emulator::enqueue(stream,
                          [dst, taken = std::move(taken)] { std::memcpy(dst, taken.data(), taken.size()); });
  } else {
    gpu_emulator::enqueue(stream, [dst, src, bytes] { std::memmove(dst, src, bytes); });
  }
  if (target == Place::pageable && !gpu_emulator::is_capturing(stream)) gpu_emulator::run_all(stream);
  return CUDA_SUCCESS;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  GPU_EMULATOR_LOCKED;
  const CUresult result = cuMemcpyAsync(to, from, bytes, nullptr);
  return result != CUDA_SUCCESS ? result : cuStreamSynchronize(nullptr);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream) {
  GPU_EMULATOR_LOCKED;
  if (gpu_emulator::place_of(to, bytes) != gpu_emulator::Place::device) return CUDA_ERROR_INVALID_VALUE;
  gpu_emulator::enqueue(stream, [=] { std::memset(gpu_emulator::pointer(to), value, bytes); });
  return CUDA_SUCCESS;
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream) {
  GPU_EMULATOR_LOCKED;
  if (gpu_emulator::place_of(to, count * 2) != gpu_emulator::Place::device) return CUDA_ERROR_INVALID_VALUE;
  gpu_emulator::enqueue(
      stream, [=] { std::fill_n(static_cast<unsigned short*>(gpu_emulator::pointer(to)), count, value); });
  return CUDA_SUCCESS;
}

// Between memory of devices; rows do not overlap.
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* what, CUstream stream) {
  using gpu_emulator::Place;
  GPU_EMULATOR_LOCKED;
  const CUDA_MEMCPY2D w = *what;
  if (w.WidthInBytes == 0 || w.Height == 0) return CUDA_SUCCESS;
  if (w.srcMemoryType != CU_MEMORYTYPE_UNIFIED || w.dstMemoryType != CU_MEMORYTYPE_UNIFIED ||
      w.srcPitch < w.WidthInBytes || w.dstPitch < w.WidthInBytes)
    return CUDA_ERROR_INVALID_VALUE;
  const auto is_there = [&](CUdeviceptr at, std::size_t pitch) {
    return gpu_emulator::place_of(at, (w.Height - 1) * pitch + w.WidthInBytes) == Place::device;
  };
  if (!is_there(w.srcDevice, w.srcPitch) || !is_there(w.dstDevice, w.dstPitch))
    return CUDA_ERROR_INVALID_VALUE;
  gpu_emulator::enqueue(stream, [w] {
    const auto* from = static_cast<const char*>(gpu_emulator::pointer(w.srcDevice));
    auto* to = static_cast<char*>(gpu_emulator::pointer(w.dstDevice));
    for (std::size_t row = 0; row < w.Height; ++row)
      std::memcpy(to + row * w.dstPitch, from + row * w.srcPitch, w.WidthInBytes);
  });
  return CUDA_SUCCESS;
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  GPU_EMULATOR_LOCKED;
  if (gpu_emulator::place_of(to, count * 4) != gpu_emulator::Place::device) return CUDA_ERROR_INVALID_VALUE;
  gpu_emulator::enqueue(
      stream, [=] { std::fill_n(static_cast<unsigned*>(gpu_emulator::pointer(to)), count, value); });
  return CUDA_SUCCESS;
}

// Memory that several processes see. Less than whole pages is not shared, though the driver would.
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr p) {
  GPU_EMULATOR_LOCKED;
  if (!gpu_emulator::may_share()) return CUDA_ERROR_NOT_SUPPORTED;
  const auto found = gpu_emulator::allocations().find(p);
  if (found == gpu_emulator::allocations().end() || found->second.file < 0) return CUDA_ERROR_INVALID_VALUE;
  const gpu_emulator::Handle told{getpid(), found->second.file, found->second.bytes};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &told, sizeof told);
  return CUDA_SUCCESS;
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* p, CUipcMemHandle handle, unsigned) {
  GPU_EMULATOR_LOCKED;
  gpu_emulator::Handle told;
  std::memcpy(&told, &handle, sizeof told);
  if (told.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;  // as the driver has it
  const std::string path = "/proc/" + std::to_string(told.process) + "/fd/" + std::to_string(told.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  void* const at = gpu_emulator::map_file(file, told.bytes);
  close(file);
  if (at == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *p = reinterpret_cast<CUdeviceptr>(at);
  gpu_emulator::allocations()[*p] = {told.bytes, current_context, -1, true};
  return CUDA_SUCCESS;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr p) {
  GPU_EMULATOR_LOCKED;
  const auto found = gpu_emulator::allocations().find(p);
  if (found == gpu_emulator::allocations().end() || !found->second.mapped) return CUDA_ERROR_INVALID_VALUE;
  gpu_emulator::run_everything();
  munmap(gpu_emulator::pointer(p), found->second.bytes);
  gpu_emulator::allocations().erase(found);
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      *text = "out of memory";
      break;
    case CUDA_ERROR_INVALID_VALUE:
      *text = "invalid argument";
      break;
    case CUDA_ERROR_NOT_SUPPORTED:
      *text = "operation not supported";
      break;
    default:
      *text = "error of the GPU emulator";
  }
  return CUDA_SUCCESS;
}
