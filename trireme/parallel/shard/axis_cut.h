// Parts of tensors along one axis of the mesh, as op::AxisCut lays them out. Pure.
#pragma once

#include <vector>

#include "trireme/op/op.h"

namespace trireme::parallel {

// The axis that a graph is cut along.
struct ShardAxis {
  std::string name;
  int num_parts = 1;
};

// Blocks and units divide the dimension, and every position gets at least one unit of each block.
bool fits(const op::AxisCut& cut, const Shape& whole, int num_parts);
// The same parts in the fewest words: a unit says nothing where parts are equal.
op::AxisCut shortest(const op::AxisCut& cut, const Shape& whole, int num_parts);
// What a position has of a tensor: all of it unless the cut is of a dimension.
Shape part_shape(const op::AxisCut& cut, const Shape& whole, int num_parts, int position);
TensorType part_type(const op::AxisCut& cut, const TensorType& whole, int num_parts, int position);

}  // namespace trireme::parallel
