// What layer norm and batch norm share, and batch norm over channels that are last in memory.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

// Bytes of an element of the widest operand that has the shape of x.
std::size_t widest_bytes(const CudaQuery& query);

// A text with the types of the operands: T x, S scale, B bias, M mean, V var, Y y; of a gradient D dy, X dx,
// G dscale, H dbias; O other, C copy and K its sums of layer_norm_grad_sum.
std::string norm_text(const CudaQuery& query, std::initializer_list<Constant> constants,
                      std::initializer_list<std::string_view> parts);

// Which input of a batch norm is what; -1: it has none. x is input 0, scale input 1.
struct BatchNormParts {
  int bias = -1, mean = -1, var = -1;
  int residual = -1;  // added before relu
  int y = -1;         // where dy counts; the gradient then also has dresidual, output 3
  int dy = -1, second = -1;
  bool relu = false;
};
BatchNormParts batch_norm_parts(const CudaQuery& query);
inline void* input_at(const CudaArgs& a, int i) { return i < 0 ? nullptr : a.in(i).raw(); }
// A text with those types and R residual, K y as an input, E the second dy, Z dresidual; the constants kRelu,
// kResidual, kFromY and kTwo say what there is.
std::string batch_norm_text(const CudaQuery& query, std::initializer_list<Constant> constants,
                            std::initializer_list<std::string_view> parts);

// Batch norm over [rows, channels], channels fastest: x [N,C] and, with rows = N * H * W, images whose
// channels are last in memory. Types of the query's statistics and parameters hold; the shape of x is not
// looked at.
Made make_batch_norm_rows(const CudaQuery& query, std::int64_t rows, std::int64_t channels);
Made make_batch_norm_grad_rows(const CudaQuery& query, std::int64_t rows, std::int64_t channels);
Made make_batch_norm_inference_rows(const CudaQuery& query, std::int64_t rows, std::int64_t channels);

}  // namespace trireme::kernel::cuda
