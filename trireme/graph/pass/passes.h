// Graph -> Graph functions. Each pass keeps named outputs and parameter names; each is exact: same bits.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme::graph {

// Adds nodes that compute d loss / d wrt[i] and returns their Values (a fill of zeros where loss does not
// depend on it). `loss` is a scalar. Gradients of a value with several uses are added in the order of the
// uses. Ordinary nodes: higher orders work where the ops used have gradients.
Result<std::vector<Value>> add_gradients(Graph& graph, Value loss, std::span<const Value> wrt);

// Keeps what the named outputs need (all outputs when empty), stateful nodes that an output names, and
// control order.
Result<Graph> eliminate_dead_code(const Graph& graph, std::span<const std::string> keep_outputs);

// Where each Value lives in one arena. Offsets are 64-byte aligned. Values that live elsewhere (feeds,
// variables, bound outputs, reshapes of them) have offset -1 or alias another Value.
struct MemoryPlan {
  struct Place {
    std::int64_t offset =
        -1;          // in the arena, or -1; an alias of a Value in the arena has that Value's offset
    Value alias_of;  // shares the memory of that Value (in-place op, reshape, mutator), or null
  };
  std::vector<std::vector<Place>> places;  // [node][output]
  std::int64_t arena_bytes = 0;
};

// Plans for execution in node order. `pinned`: Values whose memory is given from outside (bindings): neither
// moved nor reused; a pinned reshape is a copy. Outputs of the graph keep their memory to the end.
// `workspace_bytes[node]`: reserved while that node runs, returned as workspace_offsets.
struct MemoryRequest {
  std::vector<Value> pinned = {};
  std::vector<std::int64_t> workspace_bytes = {};  // per node; may be empty
  // Nodes may run at the same time when their strands do: strand[i] is the strand of node i (any number for
  // nodes that run nothing); values of different strands never share memory unless a dependency orders them.
  // A strand starts when all strands that its nodes depend on have ended. Empty: strictly in node order.
  std::vector<std::int32_t> strand = {};
  // Strands that the caller orders beyond what the graph demands: (earlier, later).
  std::vector<std::pair<std::int32_t, std::int32_t>> strand_order = {};
};
struct MemoryResult {
  MemoryPlan plan;
  std::vector<std::int64_t> workspace_offsets;  // -1 where none
};
Result<MemoryResult> plan_memory(const Graph& graph, const MemoryRequest& request);

}  // namespace trireme::graph
