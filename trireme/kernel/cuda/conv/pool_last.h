// Texts of pooling over images whose channels are last in memory; pool.cc puts its constants before them.
#pragma once

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

extern const char* const kPoolWindowsLast;  // pool_windows
extern const char* const kPoolSpreadLast;   // pool_spread

// Rows of table.cc, beside those in rows.h.
Result<std::unique_ptr<CudaKernel>> make_max_pool2d_places(const CudaQuery& query);
Result<std::unique_ptr<CudaKernel>> make_max_pool2d_places_grad(const CudaQuery& query);

}  // namespace trireme::kernel::cuda
