// Reshard: how a value gets from one layout along an axis to another. Pure.
//
//   from \ to      replicate        cut(j)                       partial
//   replicate      nothing          its part (local)             refused
//   cut(i)         allgather        all_to_all; see below        refused
//   partial sum    allreduce        reduce_scatter               nothing
//   partial max    allreduce (max)  allreduce, then its part     nothing
//
// Between cuts in blocks or units, and between two of one dimension, the value is gathered and cut anew.
// Partial values of 16 bits are not reduced: what was rounded once more per position would not be the sum.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/cost/comm_model.h"
#include "trireme/parallel/shard/axis_cut.h"

namespace trireme::parallel {

enum class ReshardStep : std::uint8_t {
  kTakePart,
  kAllgather,
  kAllToAll,
  kAllreduce,
  kAllreduceMax,
  kReduceScatter
};
std::string_view step_name(ReshardStep step);  // the op that does it

// The steps from one layout to another, in order; none where they are equal.
struct ReshardPath {
  bool is_possible = true;
  std::vector<ReshardStep> steps = {};
};
ReshardPath path_of(const op::AxisCut& from, const op::AxisCut& to, DType dtype);

// What an axis costs: messages between its positions, and memory.
struct AxisCosts {
  cost::CommModel comm;
  cost::MachineModel machine;
  int threads = 1;  // of a position
};
// Seconds of one step on a value of this type, whole, and bytes that the busiest position sends.
struct StepCost {
  double seconds = 0, bytes = 0;
};
StepCost cost_of(ReshardStep step, const TensorType& whole, int num_parts, const AxisCosts& costs);
// The same for a chunk that one position has and all others get.
StepCost broadcast_cost(const TensorType& chunk, int num_parts, const AxisCosts& costs);
// What all steps take; infinite where there is no path.
double reshard_seconds(const op::AxisCut& from, const op::AxisCut& to, const TensorType& whole, int num_parts,
                       const AxisCosts& costs);

}  // namespace trireme::parallel
