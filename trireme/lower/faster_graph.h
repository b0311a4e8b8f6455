// What is done to a graph of the trainer before it is compiled: passes that keep its results and cost less
// time.
#pragma once

#include <string>
#include <vector>

#include "trireme/graph/graph.h"
#include "trireme/tensor/device.h"

namespace trireme::lower {

// What a graph is compiled for.
struct Target {
  std::string precision = "f32";  // as train.precision: f32, tf32, bf16, f16
  Device* device = nullptr;       // a GPU; null: the host
  // Outputs by the phase of a run that makes them, where it has several (exec::CompileOptions::phases).
  std::vector<std::vector<std::string>> phases = {};
};

// On a GPU, and for bf16 on a processor with units for it, with the forms that 16-bit values are fast in. On
// the CPU norms take in relu and residuals if all of them then work on matrices.
Result<graph::Graph> faster_graph(const Target& target, const graph::Graph& graph);

}  // namespace trireme::lower
