#include "trireme/kernel/cuda/cuda.h"

#include <dlfcn.h>

#include <cstring>

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {
namespace {

constexpr std::size_t kPage = 2 << 20;
static_assert(sizeof(CUipcMemHandle) == sizeof(MemoryHandle));

Status unavailable(const Status& status) {
  return status.ok() ? status : Status(Code::kUnavailable, status.message());
}

// Not among the functions that must be there: without it copies are slower.
template <typename F>
F find_in_driver(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver != nullptr ? reinterpret_cast<F>(dlsym(driver, name)) : nullptr;
}

}  // namespace

std::shared_ptr<void> lock_pages(CudaDevice& device, std::byte* memory, std::size_t bytes) {
  using Lock = CUresult (*)(void*, std::size_t, unsigned);
  using Unlock = CUresult (*)(void*);
  const auto lock = find_in_driver<Lock>("cuMemHostRegister_v2");
  const auto unlock = find_in_driver<Unlock>("cuMemHostUnregister");
  if (memory == nullptr || bytes == 0 || lock == nullptr || unlock == nullptr) return nullptr;
  device.enter();
  if (lock(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS) return nullptr;
  return std::shared_ptr<void>(memory, [&device, unlock](void* p) {
    device.enter();
    unlock(p);
  });
}

Result<std::uint64_t> gpu_number(const CudaDevice& device) {
  const Libraries& lib = device.lib();
  std::uint64_t number = 0;
  for (const CUdevice_attribute what : {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                                        CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID}) {
    int value = 0;
    TR_RETURN_IF_ERROR(
        lib.check(lib.cuDeviceGetAttribute(&value, what, device.raw()), "reading the place of the GPU"));
    number = number << 20 | static_cast<std::uint64_t>(value);
  }
  return number;
}

Result<Buffer> allocate_shareable(CudaDevice& device, std::size_t bytes) {
  return device.allocate((bytes + kPage - 1) / kPage * kPage);
}

Result<MemoryHandle> share_memory(const CudaDevice& device, const Buffer& whole) {
  const Libraries& lib = device.lib();
  device.enter();
  CUipcMemHandle handle;
  TR_RETURN_IF_ERROR(
      unavailable(lib.check(lib.cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(whole.data())),
                            "sharing GPU memory with other processes")));
  MemoryHandle out;
  std::memcpy(out.bytes.data(), &handle, sizeof handle);
  return out;
}

Result<Buffer> map_memory(CudaDevice& device, const MemoryHandle& handle, std::size_t bytes) {
  device.enter();
  CUipcMemHandle raw;
  std::memcpy(&raw, handle.bytes.data(), sizeof raw);
  CUdeviceptr at = 0;
  TR_RETURN_IF_ERROR(unavailable(
      device.lib().check(device.lib().cuIpcOpenMemHandle(&at, raw, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                         "mapping the GPU memory of another process")));
  auto* const data = reinterpret_cast<std::byte*>(at);
  std::shared_ptr<void> owner(data, [&device](void* p) {
    device.enter();
    device.lib().cuIpcCloseMemHandle(reinterpret_cast<CUdeviceptr>(p));
  });
  return Buffer::wrap(device, data, bytes, std::move(owner));
}

}  // namespace trireme::kernel::cuda
