// The parts of a tensor over the positions of an axis, as a layout option cuts it, and the whole from them.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/op/op.h"

namespace trireme::op::testing {

// What every position has of `whole`, each in memory of its own. Partial values are drawn from `key` and
// together give the whole, exactly where its elements are small multiples of a power of two.
std::vector<Tensor> parts_of(const Tensor& whole, const AxisCut& cut, int num_parts, std::uint64_t key);

// The tensor of type `whole` whose parts these are: joined, added, or the greatest. Of replicated values that
// of position 0.
Tensor joined(const std::vector<Tensor>& parts, const AxisCut& cut, const TensorType& whole);

// The result of an op with one output, which is a mistake of the test where it fails.
Tensor run_one(const OpDef& def, const std::vector<Tensor>& inputs, const Attrs& attrs = {});
// A tensor of one value.
Tensor filled(const TensorType& type, double value);
// Writes `from` to `to`, which may be a view.
void copy_into(const Tensor& to, const Tensor& from);

}  // namespace trireme::op::testing
