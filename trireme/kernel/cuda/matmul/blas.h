// Products of matrices through cuBLASLt. Row-major operands: cuBLASLt is column-major and reads them as their
// transposes, so C = op(A) op(B) is asked for as C^T = op(B)^T op(A)^T.
//
// The algorithm is chosen when a Product is made and never changes: with the same library and GPU the same
// inputs give the same bits (split sums go through the workspace in a separate step, never through atomics).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {

// C [m, n] = alpha op(A) op(B) + beta C, then the epilogue; `batch` times, strides in elements. op(A) is [m,
// k].
struct ProductSpec {
  DType dtype = DType::kF32;  // of all: floating
  bool wide = false;          // C is f32, whatever A and B are; not with a bias
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  double alpha = 1, beta = 0;
  bool bias = false;  // + bias [n] on every row
  bool relu = false;  // after the bias; only with it
  bool tf32 = false;  // f32 operands may be rounded to 10 bits of mantissa
  int algorithm = 0;  // of product_choices for aligned operands; others have the first
};

// What cuBLASLt can do for a spec, best first by its own estimate. Addresses are multiples of `align_bytes`.
Result<std::vector<cublasLtMatmulHeuristicResult_t>> product_choices(const CudaDevice& device,
                                                                     const ProductSpec& spec,
                                                                     unsigned align_bytes, int most);

// Const after it is made; used by several threads at once, each with its own stream and workspace.
class Product {
 public:
  // Sizes may be 0.
  static Result<Product> make(CudaDevice& device, const ProductSpec& spec);

  // False: by loops of our own (blas_plain.h), for what cuBLASLt has no algorithm for; these leave out the
  // epilogue.
  bool by_library() const { return plain_ == nullptr; }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // `bias` is read only where the spec has one.
  Status enqueue(CudaStream& stream, const void* a, const void* b, void* c, const void* bias,
                 std::byte* workspace) const;

 private:
  ProductSpec spec_;
  const Function* plain_ = nullptr;
  // Semi-opaque values without ownership: copied and kept without a handle.
  cublasLtMatmulDescOpaque_t desc_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, c_{};
  // For addresses that are multiples of 16 bytes, and for any.
  std::optional<cublasLtMatmulAlgo_t> aligned_, unaligned_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace trireme::kernel::cuda
