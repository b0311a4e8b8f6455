// Elementwise ops as CUDA C++: one row per op with the body of a function of one element of each operand.
#pragma once

#include <span>
#include <string>

#include "trireme/op/op.h"

namespace trireme::kernel::cuda {

// How elements of one kind are held: in memory, and in the registers of a kernel.
struct Scalar {
  std::string memory;
  std::string compute;
  int size = 0;          // bytes in memory
  bool is_half = false;  // computes in float, rounds when stored

  std::string load(const std::string& v) const { return is_half ? "to_f(" + v + ")" : v; }
  std::string store(const std::string& v) const { return is_half ? "from_f<" + memory + ">(" + v + ")" : v; }
  // What a value is after it went through memory.
  std::string rounded(const std::string& v) const { return is_half ? load(store(v)) : v; }
};
Scalar scalar_of(DType dtype);
// Elements that are moved and never looked at, by their size.
Scalar word_of(DType dtype);

// `value` as `cast` converts it to `dtype`, as a constant of the compute type.
std::string literal(DType dtype, double value);

extern const char kExpressionText[];  // expressions.cu: what bodies rely on; comes once before them
// The body ("... return ...;") of an elementwise op; operands are a, b, c of the types A, B, C, the result is
// R; attributes come first, as constants of their names. kNotFound: the op has no expression.
Result<std::string> expression(const op::OpDef& def, const op::Attrs& attrs, std::span<const DType> operands,
                               DType result);
// The body of `cast`.
std::string cast_expression(DType from, DType to);

}  // namespace trireme::kernel::cuda
