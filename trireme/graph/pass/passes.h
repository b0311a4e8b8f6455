// Graph -> Graph functions. Each pass keeps named outputs and parameter names; each is exact: same bits.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme::graph {

// Adds nodes that compute d loss / d wrt[i] and returns their Values (a fill of zeros where loss does not depend on it).
// `loss` is a scalar. Gradients of a value with several uses are added in the order of the uses. Ordinary nodes: higher
// orders work where the ops used have gradients.
Result<std::vector<Value>> add_gradients(Graph& graph, Value loss, std::span<const Value> wrt);

// Keeps what the named outputs need (all outputs when empty), stateful nodes that an output names, and control order.
Result<Graph> eliminate_dead_code(const Graph& graph, std::span<const std::string> keep_outputs);

// Where each Value lives in one arena. Offsets are 64-byte aligned. Values that live elsewhere (feeds, variables, bound
// outputs, reshapes of them) have offset -1 or alias another Value.
struct MemoryPlan {
  struct Place {
    std::int64_t offset = -1;  // in the arena, or -1
    Value alias_of;            // shares the memory of that Value (in-place op, reshape), or null
  };
  std::vector<std::vector<Place>> places;  // [node][output]
  std::int64_t arena_bytes = 0;
};

// Plans for execution in node order. `pinned`: Values whose memory is given from outside (bindings): neither moved nor
// reused. `extra_bytes[node]`: workspace to reserve while that node runs, returned as workspace_offsets.
struct MemoryRequest {
  std::vector<Value> pinned;
  std::vector<std::int64_t> workspace_bytes;  // per node; may be empty
  // Nodes may run at the same time when their strands do: order[i] is the strand of node i; values of different strands
  // never share memory unless a dependency orders them. Empty: strictly in node order.
  std::vector<std::int32_t> strand;
};
struct MemoryResult {
  MemoryPlan plan;
  std::vector<std::int64_t> workspace_offsets;  // -1 where none
};
Result<MemoryResult> plan_memory(const Graph& graph, const MemoryRequest& request);

}  // namespace trireme::graph
