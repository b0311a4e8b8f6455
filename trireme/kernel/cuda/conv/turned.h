// Kernels for operands whose channels are last in memory, where only one for the usual order is to be had.
#pragma once

#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

// `plain` takes the query's operands with the channels second: they are turned around before it, its results
// after it, through the workspace.
Made make_turned(const CudaQuery& query, std::unique_ptr<CudaKernel> plain);

}  // namespace trireme::kernel::cuda
