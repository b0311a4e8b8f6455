#include "trireme/kernel/cuda/cuda.h"

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {

MemoryInfo memory_info(const CudaDevice& device) {
  MemoryInfo info;
  if (device.only_compiles()) return info;
  device.enter();
  device.lib().cuMemGetInfo(&info.free_bytes, &info.total_bytes);
  return info;
}

Result<Buffer> allocate_pinned(CudaDevice& device, std::size_t bytes) {
  return device.allocate_pinned(bytes);
}

}  // namespace trireme::kernel::cuda
