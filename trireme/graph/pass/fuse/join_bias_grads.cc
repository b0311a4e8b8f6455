#include "trireme/graph/pass/passes.h"

#include <map>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/forms.h"
#include "trireme/op/fused/fused_bias_grad.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// Whether the node is the gradient of a bias in f32, of v as it is or as it would be after a cast.
bool adds_up(const Graph& graph, const Node& node, Value v) {
  if (node.inputs != std::vector<Value>{v} || node.outputs[0].dtype != DType::kF32) return false;
  if (node.is(op::kBiasGrad)) return graph.type(v).dtype == DType::kF32;
  return node.def == &op::kBiasGrad && node.forms.inputs[0].dtype == DType::kF32 &&
         node.forms.outputs[0].is_plain();
}

// Gradients of biases by the groups that make what they read.
std::map<std::int32_t, std::int32_t> find_pairs(const Graph& graph) {
  const Overview over(graph);
  std::map<std::int32_t, std::int32_t> pairs;
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Value first{id, 0};
    if (!over.is(id, op::kFused) || graph.type(first).shape.rank() != 2) continue;
    for (const std::int32_t user : over.readers(first))
      if (over.movable(user) && adds_up(graph, graph.node(user), first)) pairs.try_emplace(id, user);
  }
  return pairs;
}

Result<Graph> join_bias_grads(const Graph& graph) {
  const std::map<std::int32_t, std::int32_t> pairs = find_pairs(graph);
  Rewriter rewriter(graph);
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const auto pair = pairs.find(id);
    if (pair == pairs.end()) {
      const bool made = !graph.node(id).outputs.empty() && !rewriter.at({id, 0}).is_null();
      if (!made) TR_RETURN_IF_ERROR(rewriter.copy(id).status());
      continue;
    }
    const Node& group = graph.node(id);
    const auto num_results = static_cast<std::int32_t>(group.outputs.size());
    TR_ASSIGN_OR_RETURN(const Value made, rewriter.add_in_place_of(id, op::kFusedBiasGrad,
                                                                   rewriter.at(group.inputs), group.attrs));
    for (std::int32_t k = 0; k < num_results; ++k) rewriter.map({id, k}, {made.node, k});
    rewriter.map({pair->second, 0}, {made.node, num_results});
  }
  return rewriter.finish();
}

}  // namespace

// A fused group that makes the rows of a matrix, and the gradient of a bias that reads them, become one
// fused_bias_grad. Run it after fuse. Exact.
extern const PassRow kJoinBiasGrads{
    .name = "join_bias_grads",
    .doc = "Adds up the gradient of a bias where a fused group makes its rows. After fuse.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions&) { return join_bias_grads(g); }};

}  // namespace trireme::graph
