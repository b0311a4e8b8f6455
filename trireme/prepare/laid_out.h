// How the ranks of a plan's mesh hold the variables of a job.
#pragma once

#include <string>

#include "trireme/parallel/layout.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

struct LaidOut {
  TensorType whole;
  parallel::Layout layout;  // over plan.mesh()
};

// A variable of this rank, which has type `own` here. What the plan has no layout for is replicated; an
// element's state of the optimiser lies as its parameter does.
LaidOut laid_out(const Prepared& prepared, const std::string& name, const TensorType& own);

}  // namespace trireme::prepare
