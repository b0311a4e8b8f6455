// Which of a library's algorithms is fastest for one node, tried on the GPU with memory of its own. No CUDA
// header is needed.
#pragma once

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

// Whether a library computes the op and has several algorithms for it (products, convolutions, attention).
bool has_algorithms(const op::OpDef& def, const op::Attrs& attrs);

struct AlgorithmTimes {
  int fastest = 0;  // a CudaQuery::algorithm; the library's own first choice unless another clearly wins
  int tried = 0;
  double seconds = 0, first_seconds = 0;  // of the fastest and of the library's first, per call
};

// Makes the kernel of `row` with the algorithms 0...most and times those that exist, a few calls each, on
// operands with random bits. Algorithms that want much more workspace than the first are left out. The
// query's own algorithm does not matter.
Result<AlgorithmTimes> time_algorithms(const CudaQuery& query, const CudaRow& row, int most);

}  // namespace trireme::kernel::cuda
