// How the ranks of a plan's mesh hold the variables of a job.
#pragma once

#include <string>
#include <vector>

#include "trireme/parallel/piece.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

struct LaidOut {
  TensorType whole;
  parallel::Layout layout;  // over plan.mesh()
  // Not empty: what the layout leaves is divided among the replicas (parallel::StateTensor::ranges).
  std::vector<parallel::Interval> ranges = {};
};

// Whether the replicas divide a variable among themselves (Plan::zero_level).
bool is_divided(const Prepared& prepared, const std::string& name);

// A variable of this rank, which has type `own` here. What the plan has no layout for is replicated; an
// element's state of the optimiser lies as its parameter does.
LaidOut laid_out(const Prepared& prepared, const std::string& name, const TensorType& own);

// prepared.parameters as another tile has them. (A bucket has one layout for all tiles.)
std::vector<model::Parameter> parameters_of_tile(const Prepared& prepared, int tile);

// Whether the tiles have pieces of a parameter, and not all of it each.
bool is_cut(const Prepared& prepared, const std::string& parameter);
// A parameter of this rank as another tile of its stage has it.
model::Parameter at_tile(const Prepared& prepared, const model::Parameter& own, int tile);

}  // namespace trireme::prepare
