#include "trireme/kernel/cuda/memory_info.h"

#include "trireme/kernel/cuda/device.h"

namespace trireme::kernel::cuda {

MemoryInfo memory_info(const CudaDevice& device) {
  MemoryInfo info;
  if (device.only_compiles()) return info;
  device.enter();
  device.lib().cuMemGetInfo(&info.free_bytes, &info.total_bytes);
  return info;
}

}  // namespace trireme::kernel::cuda
