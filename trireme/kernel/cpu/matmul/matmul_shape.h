// What rows of bf16 products share: which product a matmul is, and which forms of operands they take.
#pragma once

#include "trireme/kernel/cpu/formed.h"
#include "trireme/op/ops.h"

namespace trireme::kernel {

// C[m, n] = op(A) op(B), row-major and dense; a batch with one right factor is one tall matrix.
struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool one = false;     // a single product
  bool rounds = false;  // B is f32, and rounded
};

inline MatmulShape matmul_shape(const TensorType& a_type, const TensorType& b_type, const Shape& c,
                                const op::Attrs& attrs) {
  const Shape &a = a_type.shape, &b = b_type.shape;
  MatmulShape p;
  p.rounds = b_type.dtype == DType::kF32;
  p.transpose_a = attrs.get_bool("transpose_a");
  p.transpose_b = attrs.get_bool("transpose_b");
  p.m = c.dim(-2);
  p.n = c.dim(-1);
  p.k = a.dim(p.transpose_a ? -2 : -1);
  std::int64_t batch = 1;
  for (int d = 0; d < c.rank() - 2; ++d) batch *= c[d];
  const bool one_right = !p.transpose_a && b.num_elems() == b.dim(-1) * b.dim(-2) && a.rank() == c.rank();
  p.one = batch == 1 || one_right;
  if (p.one) p.m *= batch;
  return p;
}

// A formed matmul: f32 from bf16 operands, or bf16 from bf16 and an f32 that is rounded.
inline bool is_bf16_product(const op::KernelQuery& q) {
  if (q.inputs[0].dtype != DType::kBF16 || takes_channels_last(q.forms)) return false;
  const DType right = q.inputs[1].dtype, made = q.outputs[0].dtype;
  const auto &left_form = q.forms.inputs[0].dtype, &right_form = q.forms.inputs[1].dtype;
  const bool widens =
      right == DType::kBF16 && made == DType::kF32 && left_form == DType::kF32 && right_form == DType::kF32;
  const bool rounds =
      !left_form && right == DType::kF32 && right_form == DType::kBF16 && made == DType::kBF16;
  return widens || rounds;
}

}  // namespace trireme::kernel
