// One row per way of calling an op that the conformance suite tries. Every op of the table needs at least
// one.
#pragma once

#include <string>
#include <vector>

#include "trireme/op/op.h"

namespace trireme::op::testing {

// What an input holds. "Real" inputs get the floating dtype under test; values are exact in f32, so that f32
// and f64 see the same numbers.
enum class Fill {
  kReal,      // [-2, 2), away from 0 by at least 0.05
  kPositive,  // [0.5, 2.5)
  kDistinct,  // pairwise distinct, far enough apart for finite differences
  kInts,      // i64 in [-5, 5]
  kInts32,    // the same as i32
  kLabels,    // i64 in [0, 4)
  kLabels32,  // the same as i32
  kWeights,   // f32: 0, 0.5, 1, 1.5...
  kIds,       // i64, distinct
  kBytes,     // u8
};

struct Input {
  Fill fill;
  Shape shape;
};

struct OpCase {
  const OpDef* def;
  std::string note;  // what is special about it; with the op's name it is unique
  std::vector<Input> inputs = {};
  Attrs attrs = {};
};

const std::vector<OpCase>& op_cases();

std::string case_name(const OpCase& c);  // letters, digits and underscores
// The inputs of a case, made anew. `real` is the dtype of "real" inputs.
std::vector<Tensor> make_inputs(const OpCase& c, DType real);
// The same values in memory with gaps and reversed order of dimensions.
Tensor strided_copy(const Tensor& t);
// The elements in row-major order.
std::vector<double> to_doubles(const Tensor& t);
Tensor random_real(const TensorType& type, std::uint64_t key);

}  // namespace trireme::op::testing
