// The gradient of relu asks of y only whether it is positive. Where a product reads y in bf16, the gradient
// reads that copy, and nobody keeps y in f32. Tolerant: below 2^-134 a positive y is 0 in bf16. Not for f16,
// whose zero begins at 2^-25.
#include <optional>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::graph {

Result<Graph> narrow_masks(const Graph& graph) {
  Rewriter rewriter(graph);
  const std::vector<bool> movable = movable_nodes(graph, /*may_be_random=*/false);
  const ValueMap<std::vector<std::int32_t>> users = users_of(graph);
  const auto is_movable = [&](std::int32_t id, const OpDef& def) {
    return graph.node(id).def == &def && movable[static_cast<std::size_t>(id)];
  };
  // The copy of v in bf16 that is there when node `id` runs.
  const auto copy_of = [&](Value v, std::int32_t id) -> std::optional<Value> {
    for (const std::int32_t user : users[v])
      if (user < id && is_movable(user, op::kCast) && graph.node(user).outputs[0].dtype == DType::kBF16)
        return rewriter.at(Value{user, 0});
    return std::nullopt;
  };
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    std::vector<Value> inputs = rewriter.at(node.inputs);
    if (is_movable(id, op::kReluGrad) && node.outputs[0].dtype == DType::kF32) {
      if (const std::optional<Value> low = copy_of(node.inputs[1], id)) {
        std::vector<Value> narrow{*low};
        TR_ASSIGN_OR_RETURN(inputs[1], rewriter.add(op::kCast, std::move(narrow), {{"dtype", DType::kF32}},
                                                    node.name + "/mask", node.site));
      }
    }
    TR_RETURN_IF_ERROR(rewriter.copy(id, std::move(inputs), node.attrs).status());
  }
  return rewriter.finish();
}

}  // namespace trireme::graph
