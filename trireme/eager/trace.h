// trace: an imperative function as a Graph. The function runs once with Arrays that have types and no values;
// every call on its Context becomes a node. Python-like control flow is run through, not recorded.
//
// Parameters and states that the function uses become variables of the same names; changes to them
// (apply_sgd...) become nodes, and outputs "updated:<name>" whose fetching makes them happen. Other Arrays
// from outside become inputs "captured/0"... Gradients work inside: backward() and gradients() add their
// nodes.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/eager/context.h"
#include "trireme/graph/graph.h"

namespace trireme::eager {

struct TraceInput {
  std::string name;
  TensorType type;
};
using NamedArrays = std::vector<std::pair<std::string, Array>>;
using TracedFunction = std::function<NamedArrays(std::span<const Array> inputs)>;

struct Traced {
  graph::Graph graph;
  std::map<std::string, Tensor>
      variables;  // the memory of the parameters themselves: updates are seen by both
  std::map<std::string, Tensor> captured;  // to be fed with every run
  std::vector<std::string> updates;        // outputs that change variables
};

// The graph gives the bits of the calls themselves when it is run without tolerant passes, at the same width.
// Fails with the first failure inside the function; the Context is as before.
Result<Traced> trace(Context& context, const std::vector<TraceInput>& inputs, const TracedFunction& function);

}  // namespace trireme::eager
