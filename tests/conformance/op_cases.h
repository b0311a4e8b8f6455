// One row per way of calling an op that the conformance suites try; the rows are in cases/<family>.cc. Every
// op of the table needs at least one.
#pragma once

#include <string>
#include <vector>

#include "trireme/op/op.h"

namespace trireme::op::testing {

// What an input holds. The first group gets the dtype under test ("typed" inputs); their values are exact in
// f32, so that f32 and f64 see the same numbers. Under an integer dtype they hold small integers instead.
enum class Fill {
  kReal,      // [-2, 2), away from 0 by at least 0.05
  kPositive,  // [0.5, 2.5)
  kUnit,      // (0, 1), away from both ends
  kDistinct,  // pairwise distinct, far enough apart for finite differences
  kRegular,   // square matrices (last two dimensions) that are far from singular
  // Fixed dtypes.
  kBools,
  kInts,      // i64 in [-5, 5]
  kInts32,    // the same as i32
  kLabels,    // i64 in [0, 4)
  kLabels32,  // the same as i32
  kWeights,   // f32: 0, 0.5, 1, 1.5...
  kIds,       // i64, distinct
  kBytes,     // u8
};
bool is_typed(Fill fill);

struct Input {
  Fill fill;
  Shape shape;
};

struct OpCase {
  const OpDef* def;
  std::string note;  // what is special about it; with the op's name it is unique
  std::vector<Input> inputs = {};
  Attrs attrs = {};
  // The reference kernel leaves work out depending on values (labels, masks): the cost is an upper bound.
  bool skips_work = false;
  // Elements of some input are not read (rows that no index names): the bytes of the cost are at most all of
  // them.
  bool reads_part = false;
  // 16-bit results may be off by this many units of rounding (ops that store and reuse 16-bit values).
  double half_slack = 1;
  // The gradient of the gradient is refused ("has no gradient"): the op is itself a first derivative of one
  // that can be differentiated twice, and nobody asked for a third.
  bool first_order_only = false;
};

const std::vector<OpCase>& op_cases();

std::string case_name(const OpCase& c);  // letters, digits and underscores
// The inputs of a case, made anew, typed ones in `dtype`.
std::vector<Tensor> make_inputs(const OpCase& c, DType dtype);
// The same values in memory with gaps and reversed order of dimensions.
Tensor strided_copy(const Tensor& t);
// The elements in row-major order.
std::vector<double> to_doubles(const Tensor& t);
// The same values in another dtype.
Tensor converted(const Tensor& t, DType dtype);
Tensor random_real(const TensorType& type, std::uint64_t key);

}  // namespace trireme::op::testing
