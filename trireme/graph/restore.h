// Building a graph from what a file says, trusting none of it. Shared by the binary and the JSON reader.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme::graph {

inline constexpr std::uint32_t kMaxStoredAttrs = 256;

struct StoredNode {
  std::string op, name, site;
  std::vector<Value> inputs;
  std::vector<std::int32_t> control;
  Attrs attrs;
  std::vector<std::string> types;  // as TensorType::to_string, compared with inference
  std::string forms;               // as op::to_text; empty: plain
};

class Restorer {
 public:
  Status add(StoredNode node);
  Status output(std::string name, Value v);
  // Verified. `version` is the one that was stored: it must be that of the graph.
  Result<Graph> finish(std::int64_t version);

 private:
  Graph graph_;
  std::set<std::string> outputs_;
};

}  // namespace trireme::graph
