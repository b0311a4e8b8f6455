// What a launch inside a captured graph costs.
#pragma once

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

// What one more kernel costs in a captured graph beyond its own work, in nanoseconds: measured as a share of
// a long chain of empty ones. So gaps between the kernels of a step take at most their number times this.
Result<double> launch_ns(CudaDevice& device);

}  // namespace trireme::kernel::cuda
