// The sets of loops, one per instruction set (loops_<set>.cc).
#pragma once

#include "trireme/kernel/cpu/simd/functions.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/simd/row_loops.h"

// A VectorLoops made of the functions that loops.inc defined in namespace `set`.
#define TR_VECTOR_LOOPS(set)                                                                                 \
  {                                                                                                          \
    .isa = #set, .add = set::add, .sub = set::sub, .mul = set::mul, .relu_grad = set::relu_grad,             \
    .scale = set::scale, .add_scalar = set::add_scalar, .relu = set::relu, .sum = set::sum, .sgd = set::sgd, \
    .momentum = set::momentum, .f32_to_bf16 = set::f32_to_bf16, .bf16_to_f32 = set::bf16_to_f32,             \
    .f32_to_f16 = set::f32_to_f16, .f16_to_f32 = set::f16_to_f32, .copy_rows = set::copy_rows,               \
    .max_pool2 = set::max_pool2, .max_pool2_grad = set::max_pool2_grad                                       \
  }

// The same for functions.inc and row_loops.inc.
#define TR_FUNCTION_LOOPS(set)                                                                          \
  {                                                                                                     \
    .exp = set::exp_loop, .tanh = set::tanh_loop, .sigmoid = set::sigmoid_loop, .silu = set::silu_loop, \
    .erf = set::erf_loop, .gelu = set::gelu_loop, .gelu_tanh = set::gelu_tanh_loop                      \
  }
#define TR_ROW_LOOPS(set)                                                                       \
  {                                                                                             \
    .norm = set::norm, .norm_grad = set::norm_grad, .norm_param_grad = set::norm_param_grad,    \
    .softmax = set::softmax, .softmax_grad = set::softmax_grad, .shifted_exp = set::shifted_exp \
  }

namespace trireme::kernel {
extern const VectorLoops kBaselineLoops;
extern const FunctionLoops kBaselineFunctions;
extern const RowLoops kBaselineRows;
#ifdef __x86_64__
extern const VectorLoops kAvx2Loops, kAvx512Loops;
extern const FunctionLoops kAvx2Functions, kAvx512Functions;
extern const RowLoops kAvx2Rows, kAvx512Rows;
#endif
}  // namespace trireme::kernel
