// How much memory a GPU has, and memory of the host that it reaches.
#pragma once

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

// Of the whole GPU, other programs counted.
struct MemoryInfo {
  std::size_t free_bytes = 0, total_bytes = 0;
};
MemoryInfo memory_info(const CudaDevice& device);

// Page-locked memory of the host: copies from and to it run beside kernels, and nobody waits for them.
Result<Buffer> allocate_pinned(CudaDevice& device, std::size_t bytes);

}  // namespace trireme::kernel::cuda
