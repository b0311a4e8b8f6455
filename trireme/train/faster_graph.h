// What is done to a graph of the trainer before it is compiled: passes that keep its results and cost less
// time.
#pragma once

#include "trireme/graph/graph.h"
#include "trireme/tensor/device.h"
#include "trireme/train/job.h"

namespace trireme::train {

// On a GPU (`device` not null), and for bf16 on a processor with units for it, with the forms that 16-bit
// values are fast in. On the CPU norms take in relu and residuals if all of them then work on matrices.
Result<graph::Graph> faster_graph(const Job& job, const graph::Graph& graph, Device* device);

}  // namespace trireme::train
