// The make functions of all rows in table.cc, one block per file.
#pragma once

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

using Made = Result<std::unique_ptr<CudaKernel>>;

// elementwise, fused, array, embedding

// reduce, norm, softmax, loss, update, random
Made make_reduce(const CudaQuery& query);
Made make_arg_reduce(const CudaQuery& query);

// matmul, conv, attention
Made make_matmul(const CudaQuery& q);
Made make_matmul_bias_act(const CudaQuery& q);

// pool, window, recurrent, linalg
Made make_max_pool2d(const CudaQuery& query);
Made make_max_pool2d_grad(const CudaQuery& query);
Made make_max_pool2d_grad_grad(const CudaQuery& query);
Made make_avg_pool2d(const CudaQuery& query);
Made make_avg_pool2d_grad(const CudaQuery& query);
Made make_l2_pool2d(const CudaQuery& query);

}  // namespace trireme::kernel::cuda
