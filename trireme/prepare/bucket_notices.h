// When the buckets of a training graph may leave a GPU, with as few cuts as can be.
#pragma once

#include <vector>

#include "trireme/exec/executor.h"
#include "trireme/plan/plan.h"

namespace trireme::prepare {

// One notice per bucket, for graphs whose nodes run in their order: the last output of the bucket, and the
// parameter of it that is read last.
std::vector<exec::Notice> bucket_notices(const graph::Graph& graph, const plan::Plan& plan);

}  // namespace trireme::prepare
