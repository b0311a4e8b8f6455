// What layer norm and the two layouts of batch norm share.
#pragma once

#include <string_view>

#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

// sum_parts: [num_parts][2][n] partial sums -> dscale [n], dbias [n], added in a fixed order.
std::string_view sum_parts_text();

// Batch norm over [rows, channels], channels fastest: x [N,C] and, with rows = N * H * W, images whose
// channels are last in memory. Types of the query's statistics and parameters hold; the shape of x is not
// looked at.
Made make_batch_norm_rows(const CudaQuery& query, std::int64_t rows, std::int64_t channels);
Made make_batch_norm_grad_rows(const CudaQuery& query, std::int64_t rows, std::int64_t channels);
Made make_batch_norm_inference_rows(const CudaQuery& query, std::int64_t rows, std::int64_t channels);

}  // namespace trireme::kernel::cuda
