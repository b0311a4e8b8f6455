// The sets of loops, one per instruction set (loops_<set>.cc).
#pragma once

#include "trireme/kernel/cpu/simd/loops.h"

// A VectorLoops made of the functions that loops.inc defined in namespace `set`.
#define TR_VECTOR_LOOPS(set)                                                                                 \
  {                                                                                                          \
    .isa = #set, .add = set::add, .sub = set::sub, .mul = set::mul, .relu_grad = set::relu_grad,             \
    .scale = set::scale, .add_scalar = set::add_scalar, .relu = set::relu, .sum = set::sum, .sgd = set::sgd, \
    .momentum = set::momentum, .f32_to_bf16 = set::f32_to_bf16, .bf16_to_f32 = set::bf16_to_f32,             \
    .f32_to_f16 = set::f32_to_f16, .f16_to_f32 = set::f16_to_f32, .copy_rows = set::copy_rows,               \
    .max_pool2 = set::max_pool2, .max_pool2_grad = set::max_pool2_grad                                       \
  }

namespace trireme::kernel {
extern const VectorLoops kBaselineLoops;
#ifdef __x86_64__
extern const VectorLoops kAvx2Loops, kAvx512Loops;
#endif
}  // namespace trireme::kernel
