// The make functions of all rows in table.cc, one block per file.
#pragma once

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

using Made = Result<std::unique_ptr<CudaKernel>>;

// elementwise, fused, array, embedding

// reduce, norm, softmax, loss, update, random

// matmul, conv, attention
Made make_matmul(const CudaQuery& q);
Made make_matmul_bias_act(const CudaQuery& q);

// pool, window, recurrent, linalg

}  // namespace trireme::kernel::cuda
