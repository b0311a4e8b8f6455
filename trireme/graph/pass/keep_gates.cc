// The gradient of lstm goes forward again before it goes back. Where both are in one graph, the forward op
// keeps its gates and cell states for the gradient. Tolerant: gradients of weights are added in another
// order.
#include "trireme/graph/pass/keep_gates.h"

#include <algorithm>
#include <map>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"
#include "trireme/op/sequence/lstm_kept.h"

namespace trireme::graph {
namespace {

constexpr std::size_t kInputs = 7;  // x, h0, c0, w_ih, w_hh, b_ih, b_hh

// The forward node of every gradient that has one.
std::map<std::int32_t, std::int32_t> pairs_of(const Graph& graph) {
  const std::vector<bool> movable = movable_nodes(graph, /*may_be_random=*/false);
  const Mutations mutations(graph);
  std::map<std::int32_t, std::int32_t> pairs;
  std::vector<std::int32_t> forwards;
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (!movable[static_cast<std::size_t>(id)]) continue;
    if (node.def == &op::kLstm) forwards.push_back(id);
    if (node.def != &op::kLstmGrad) continue;
    for (const std::int32_t forward : forwards) {
      const auto& inputs = graph.node(forward).inputs;
      const bool same = std::equal(inputs.begin(), inputs.end(), node.inputs.begin(),
                                   node.inputs.begin() + kInputs, std::equal_to<>());
      const bool changed = std::any_of(inputs.begin(), inputs.end(),
                                       [&](Value v) { return mutations.between(v, forward, id); });
      if (same && !changed) pairs.emplace(id, forward);
    }
  }
  return pairs;
}

}  // namespace

Result<Graph> keep_gates(const Graph& graph) {
  const std::map<std::int32_t, std::int32_t> pairs = pairs_of(graph);
  std::map<std::int32_t, std::int32_t> kept;  // the new nodes of forward ones
  for (const auto& [back, forward] : pairs) kept[forward] = -1;
  Rewriter rewriter(graph);
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    std::vector<Value> inputs = rewriter.at(node.inputs);
    const auto pair = pairs.find(id);
    const auto forward = kept.find(id);
    if (pair == pairs.end() && forward == kept.end()) {
      TR_RETURN_IF_ERROR(rewriter.copy(id, std::move(inputs), node.attrs).status());
      continue;
    }
    const op::OpDef* def = &op::kLstmKept;
    if (pair != pairs.end()) {
      def = &op::kLstmKeptGrad;
      const std::int32_t from = kept[pair->second];
      inputs = {inputs[0],      inputs[1],      inputs[3],       inputs[4],           Value{from, 0},
                Value{from, 3}, Value{from, 4}, inputs[kInputs], inputs[kInputs + 1], inputs[kInputs + 2]};
    }
    TR_ASSIGN_OR_RETURN(const Value made, rewriter.add_in_place_of(id, *def, std::move(inputs), node.attrs));
    if (forward != kept.end()) forward->second = made.node;
    for (std::int32_t k = 0; k < std::ssize(node.outputs); ++k) rewriter.map({id, k}, {made.node, k});
  }
  return rewriter.finish();
}

}  // namespace trireme::graph
