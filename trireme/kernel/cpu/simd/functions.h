// Elementwise functions over contiguous f32, compiled and chosen like the loops of loops.h, with the same
// bits on every instruction set.
//
// Errors are below 3 units in the last place of the result (gelu, silu, softplus: of their larger term). NaN
// stays NaN; infinities and overflow go where the function's limit is. out may be x.
#pragma once

#include <cstdint>

namespace trireme::kernel {

using UnaryLoop = void (*)(const float* x, float* out, std::int64_t n);

// out[i] from a[i] and b[i]; from a[i] and the one b; from the one a and b[i]. out may be an operand.
struct BinaryLoops {
  using Loop = void (*)(const float* a, const float* b, float* out, std::int64_t n);
  Loop pairs, one_right, one_left;
};

struct FunctionLoops {
  UnaryLoop exp;
  UnaryLoop tanh;
  UnaryLoop sigmoid;  // 1 / (1 + exp(-x))
  UnaryLoop silu;     // x / (1 + exp(-x))
  UnaryLoop erf;
  UnaryLoop log;
  UnaryLoop softplus;   // log(1 + exp(x))
  UnaryLoop gelu;       // x/2 (1 + erf(x / sqrt 2))
  UnaryLoop gelu_tanh;  // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  // Rounded once per operation, like the reference.
  UnaryLoop abs, neg, reciprocal, rsqrt, sqrt, square;
  BinaryLoops add, sub, mul, div, maximum, minimum, squared_difference;  // the first NaN is the extremum
};

// The fastest set for the instructions of this processor. Constant over the life of the process.
const FunctionLoops& function_loops();

}  // namespace trireme::kernel
