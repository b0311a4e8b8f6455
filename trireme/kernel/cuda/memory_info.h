// How much memory a GPU has.
#pragma once

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

// Of the whole GPU, other programs counted.
struct MemoryInfo {
  std::size_t free_bytes = 0, total_bytes = 0;
};
MemoryInfo memory_info(const CudaDevice& device);

}  // namespace trireme::kernel::cuda
