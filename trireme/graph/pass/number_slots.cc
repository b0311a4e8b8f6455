// Slots for the collectives and messages of a graph. Gradients add such nodes without one.
#include <set>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"

namespace trireme::graph {
namespace {

bool meets_others(const Node& node) { return node.def->family == "comm"; }

}  // namespace

bool has_collectives(const Graph& graph) {
  for (std::int32_t i = 0; i < graph.size(); ++i)
    if (meets_others(graph.node(i))) return true;
  return false;
}

Result<Graph> number_slots(const Graph& graph, std::int64_t first, std::int64_t num_slots) {
  std::set<std::int64_t> taken;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    if (!meets_others(node) || node.attrs.get_int("slot") < 0) continue;
    if (!taken.insert(node.attrs.get_int("slot")).second)
      return error(Code::kInvalid, "[graph] node '{}' has slot {}, which another node has: expected one each",
                   node.name, node.attrs.get_int("slot"));
  }
  Rewriter rewriter(graph);
  std::int64_t next = first;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    Attrs attrs = node.attrs;
    if (meets_others(node) && attrs.get_int("slot") < 0) {
      while (taken.count(next) > 0) ++next;
      if (next >= first + num_slots)
        return error(Code::kExhausted, "[graph] node '{}' gets no slot: {} from {} on are taken", node.name,
                     num_slots, first);
      attrs.set("slot", next++);
    }
    TR_RETURN_IF_ERROR(rewriter.copy(i, rewriter.at(node.inputs), std::move(attrs)).status());
  }
  return rewriter.finish();
}

}  // namespace trireme::graph
