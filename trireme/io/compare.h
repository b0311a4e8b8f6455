// Comparing tensors and looking for values that are not finite. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/io/safetensors.h"

namespace trireme::io {

struct NonFiniteCount {
  std::int64_t nans = 0, infinities = 0;
};
// Counts in any tensor; types without such values have none.
NonFiniteCount count_non_finite(const Tensor& tensor);

enum class TensorRelation : std::uint8_t {
  kEqual,      // the same type and bits
  kDifferent,  // the same type, other bits
  kOtherType,  // another dtype or shape
  kOnlyFirst,
  kOnlySecond,
};
const char* relation_name(TensorRelation relation);  // "equal", "different"...

struct TensorDiff {
  std::string name;
  TensorRelation relation = TensorRelation::kEqual;
  TensorType first, second;  // where it is there
  // Where the relation is kDifferent:
  std::int64_t num_different = 0;  // elements whose bits differ
  double max_abs = 0;              // largest |a - b|; infinite where one of them is not a finite number
  double max_relative = 0;         // largest |a - b| / max(|a|, |b|): 0 to 2, or infinite
};

// In the order of `a`, then those that only `b` has.
std::vector<TensorDiff> diff_tensors(const NamedTensors& a, const NamedTensors& b);
bool all_equal(const std::vector<TensorDiff>& diffs);

}  // namespace trireme::io
