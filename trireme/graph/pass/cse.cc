// Common subexpressions: a node that does what an earlier one does is replaced by it. Equal means the same
// op, the same forms, the same inputs (after replacement) and the same attributes to the bit; a + b and b + a
// differ.
#include <unordered_map>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/forms.h"

namespace trireme::graph {
namespace {

Result<Graph> merge_common(const Graph& graph) {
  Rewriter rewriter(graph);
  const Overview over(graph);
  std::unordered_map<std::string, std::int32_t> seen;  // what a node does -> the new node that does it
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    if (!over.movable(i)) {
      TR_RETURN_IF_ERROR(rewriter.copy(i).status());
      continue;
    }
    std::string key = fmt::format("{}(", op::formed_name(*node.def, node.forms));
    for (const Value v : node.inputs) key += fmt::format("{}:{},", rewriter.at(v).node, rewriter.at(v).index);
    append_attrs(key, node.attrs);
    const auto [it, is_new] = seen.try_emplace(std::move(key), rewriter.to().size());
    if (is_new) {
      TR_RETURN_IF_ERROR(rewriter.copy(i).status());
      continue;
    }
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      rewriter.map({i, k}, {it->second, k});
  }
  return rewriter.finish();
}

}  // namespace

// Replaces nodes by earlier ones that do the same: op, inputs and attributes equal to the bit. Never random,
// stateful or host ops, feeds, or nodes that control edges touch. Exact.
extern const PassRow kCse{.name = "cse",
                          .doc = "Computes equal expressions once.",
                          .exactness = Exactness::kExact,
                          .run = [](const Graph& g, const PassOptions&) { return merge_common(g); }};

}  // namespace trireme::graph
