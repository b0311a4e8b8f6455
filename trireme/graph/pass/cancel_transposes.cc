#include "trireme/graph/pass/passes.h"

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

using Ints = std::vector<std::int64_t>;

// Which dimension of what it reads each of its own is.
Ints order_of(const Node& node) {
  Ints order = node.attrs.get_ints("order");
  const int rank = node.outputs[0].shape.rank();
  if (order.empty())
    for (int d = rank - 1; d >= 0; --d) order.push_back(d);
  for (std::int64_t& d : order) d = d < 0 ? d + rank : d;
  return order;
}

bool undoes(const Node& second, const Node& first) {
  const Ints outer = order_of(second), inner = order_of(first);
  for (std::size_t d = 0; d < outer.size(); ++d)
    if (inner[static_cast<std::size_t>(outer[d])] != static_cast<std::int64_t>(d)) return false;
  return true;
}

Result<Graph> cancel_transposes(const Graph& graph) {
  const Overview over(graph);
  const Mutations mutations(graph);
  Rewriter rewriter(graph);
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    TR_RETURN_IF_ERROR(rewriter.copy(id).status());
    if (!over.is(id, op::kTranspose)) continue;
    const std::int32_t first = graph.node(id).inputs[0].node;
    if (!over.is(first, op::kTranspose) || !undoes(graph.node(id), graph.node(first))) continue;
    const Value read = graph.node(first).inputs[0];
    if (!mutations.between(read, first, graph.size())) rewriter.map({id, 0}, rewriter.at(read));
  }
  return rewriter.finish();
}

}  // namespace

// What reads a transpose that undoes another (batch and time, between two recurrent layers) reads what that
// one read. Nodes that nobody reads any more stay: run dead_code after it. Exact.
extern const PassRow kCancelTransposes{
    .name = "cancel_transposes",
    .doc = "Leaves out transposes that undo each other. After gradients.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions&) { return cancel_transposes(g); }};

}  // namespace trireme::graph
