// Collectives of op/comm as plain code over the tensors of all positions: what they mean.
#pragma once

#include <vector>

#include "trireme/op/op.h"

namespace trireme::op::testing {

// The output of every position of an exchange in which position p has inputs[p] and attrs[p], completed.
// Attributes of positions differ in their extents at most.
std::vector<Tensor> exchange(const OpDef& def, const std::vector<Attrs>& attrs,
                             const std::vector<Tensor>& inputs);

}  // namespace trireme::op::testing
