#include "trireme/graph/pass/widen_products.h"

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/fused/adapted.h"
#include "trireme/op/ops.h"

namespace trireme::graph {

Result<Graph> widen_products(const Graph& graph) {
  const std::vector<bool> movable = movable_nodes(graph, /*may_be_random=*/false);
  const ValueMap<std::vector<std::int32_t>> users = users_of(graph);
  ValueMap<bool> is_output(graph, false);
  for (const auto& [name, v] : graph.outputs()) is_output[v] = true;
  // The cast that alone reads the product, or -1.
  const auto cast_of = [&](std::int32_t id) -> std::int32_t {
    const Value v{id, 0};
    if (graph.node(id).def != &op::kMatmul || !movable[static_cast<std::size_t>(id)] || is_output[v] ||
        dtype_size(graph.type(v).dtype) != 2 || users[v].size() != 1)
      return -1;
    const std::int32_t user = users[v][0];
    const Node& cast = graph.node(user);
    const bool fits = cast.def == &op::kCast && movable[static_cast<std::size_t>(user)] &&
                      cast.outputs[0].dtype == DType::kF32 && is_output[Value{user, 0}];
    return fits ? user : -1;
  };
  Rewriter rewriter(graph);
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.def == &op::kCast && cast_of(node.inputs[0].node) == id) continue;
    const std::int32_t cast = cast_of(id);
    if (cast < 0) {
      TR_RETURN_IF_ERROR(rewriter.copy(id).status());
      continue;
    }
    op::detail::Adapted wide{node.def, node.attrs, {DType::kF32, DType::kF32}, {}};
    wide.out.resize(1);
    TR_ASSIGN_OR_RETURN(std::string text, op::detail::adapted_text(wide));
    TR_ASSIGN_OR_RETURN(const Value made, rewriter.add_in_place_of(id, op::kAdapted, rewriter.at(node.inputs),
                                                                   {{"program", std::move(text)}}));
    rewriter.map({cast, 0}, made);
  }
  return rewriter.finish();
}

}  // namespace trireme::graph
