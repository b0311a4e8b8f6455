#include "trireme/graph/pass/passes.h"

#include <algorithm>
#include <map>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/array/cast_all.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

using Casts = std::vector<std::int32_t>;  // ascending

// Casts of variables to 16 bits, by dtype, that can stand where the first of them stands.
std::map<DType, Casts> find_casts(const Graph& graph) {
  const Overview over(graph);
  const Mutations mutations(graph);
  std::map<DType, Casts> casts;
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (!over.is(id, op::kCast)) continue;
    const Value from = node.inputs[0];
    const Node& variable = graph.node(from.node);
    const DType to = node.outputs[0].dtype;
    if (variable.def != &op::kVariable || !variable.control.empty() ||
        graph.type(from).dtype != DType::kF32 || !is_floating(to) || dtype_size(to) != 2)
      continue;
    Casts& of = casts[to];
    if (of.empty() || !mutations.between(from, of.front(), id)) of.push_back(id);
  }
  std::erase_if(casts, [](const auto& of) { return of.second.size() < 2; });
  return casts;
}

Result<Graph> join_casts(const Graph& graph) {
  std::map<std::int32_t, Casts> casts;  // by the first
  for (auto& [dtype, of] : find_casts(graph)) casts.emplace(of.front(), std::move(of));
  Rewriter rewriter(graph);
  const auto join = [&](const Casts& of) -> Status {
    std::vector<Value> inputs;
    for (const std::int32_t id : of) {
      const Value from = graph.node(id).inputs[0];
      if (rewriter.at(from).is_null()) TR_RETURN_IF_ERROR(rewriter.copy(from.node).status());
      inputs.push_back(rewriter.at(from));
    }
    TR_ASSIGN_OR_RETURN(
        const Value made,
        rewriter.add_in_place_of(of.front(), op::kCastAll, std::move(inputs), graph.node(of.front()).attrs));
    for (std::size_t i = 0; i < of.size(); ++i)
      rewriter.map({of[i], 0}, {made.node, static_cast<std::int32_t>(i)});
    return {};
  };
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    if (const auto at = casts.find(id); at != casts.end()) {
      TR_RETURN_IF_ERROR(join(at->second));
    } else if (graph.node(id).outputs.empty() || rewriter.at({id, 0}).is_null()) {
      TR_RETURN_IF_ERROR(rewriter.copy(id).status());
    }
  }
  return rewriter.finish();
}

}  // namespace

// f32 variables that are cast to 16 bits are cast by one cast_all, where the first of the casts stood. For
// devices on which every launch costs. Exact.
extern const PassRow kJoinCasts{.name = "join_casts",
                                .doc = "Casts variables to 16 bits in one op. After gradients.",
                                .exactness = Exactness::kExact,
                                .run = [](const Graph& g, const PassOptions&) { return join_casts(g); }};

}  // namespace trireme::graph
