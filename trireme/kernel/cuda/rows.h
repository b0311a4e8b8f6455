// The make functions of all rows in table.cc, one block per file.
#pragma once

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

using Made = Result<std::unique_ptr<CudaKernel>>;

// elementwise, fused, array, embedding
Made make_elementwise(const CudaQuery& q);
Made make_bias_add(const CudaQuery& q);
Made make_fused(const CudaQuery& q);

// reduce, norm, softmax, loss, update, random
Made make_reduce(const CudaQuery& query);
Made make_arg_reduce(const CudaQuery& query);

// matmul, conv, attention
Made make_matmul(const CudaQuery& q);
Made make_matmul_bias_act(const CudaQuery& q);
Made make_conv2d(const CudaQuery& q);
Made make_conv2d_input_grad(const CudaQuery& q);
Made make_conv2d_filter_grad(const CudaQuery& q);
Made make_conv2d_transpose(const CudaQuery& q);
Made make_conv2d_direct(const CudaQuery& q);
Made make_conv2d_input_grad_direct(const CudaQuery& q);
Made make_conv2d_filter_grad_direct(const CudaQuery& q);
Made make_conv2d_transpose_direct(const CudaQuery& q);
Made make_conv2d_bias_act(const CudaQuery& q);
Made make_attention(const CudaQuery& q);
Made make_attention_grad(const CudaQuery& q);

// pool, window, recurrent, linalg
Made make_max_pool2d(const CudaQuery& query);
Made make_max_pool2d_grad(const CudaQuery& query);
Made make_max_pool2d_grad_grad(const CudaQuery& query);
Made make_avg_pool2d(const CudaQuery& query);
Made make_avg_pool2d_grad(const CudaQuery& query);
Made make_l2_pool2d(const CudaQuery& query);
Made make_window_sum(const CudaQuery& query);
Made make_local_response_norm(const CudaQuery& query);
Made make_gaussian_blur2d(const CudaQuery& query);
Made make_local_contrast_norm(const CudaQuery& query);
Made make_locally_connected2d(const CudaQuery& query);
Made make_locally_connected2d_input_grad(const CudaQuery& query);
Made make_locally_connected2d_filter_grad(const CudaQuery& query);
Made make_inverse(const CudaQuery& query);
Made make_determinant(const CudaQuery& query);

}  // namespace trireme::kernel::cuda
