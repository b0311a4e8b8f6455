#include "trireme/graph/pass/passes.h"

#include <algorithm>
#include <array>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

Result<Graph> scalar_fills(const Graph& graph) {
  constexpr std::array kOps{&op::kAdd, &op::kSub, &op::kMul, &op::kDiv, &op::kMaximum, &op::kMinimum};
  const Overview over(graph);
  ValueMap<Value> scalars(graph);  // in the new graph, of a fill
  Rewriter rewriter(graph);
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    std::vector<Value> inputs = rewriter.at(node.inputs);
    const bool takes_scalars = over.movable(id) && node.forms.is_plain() &&
                               std::find(kOps.begin(), kOps.end(), node.def) != kOps.end();
    for (std::size_t i = 0; takes_scalars && i < inputs.size(); ++i) {
      const Value v = node.inputs[i], other = node.inputs[1 - i];
      const Node& fill = graph.node(v.node);
      if (!over.is(v.node, op::kFill) || fill.outputs[0].shape.rank() == 0 ||
          graph.node(other.node).def == &op::kFill || graph.type(other).shape != node.outputs[0].shape)
        continue;
      if (scalars[v].is_null()) {
        Attrs attrs = fill.attrs;
        attrs.set("shape", std::vector<std::int64_t>{});
        TR_ASSIGN_OR_RETURN(scalars[v],
                            rewriter.add(op::kFill, {}, std::move(attrs), fill.name + "/scalar", fill.site));
      }
      inputs[i] = scalars[v];
    }
    TR_RETURN_IF_ERROR(rewriter.copy(id, std::move(inputs), node.attrs).status());
  }
  return rewriter.finish();
}

}  // namespace

// A tensor of one value beside another operand of an elementwise op becomes a scalar that is broadcast: it is
// not written, and fusion reads a register. Run it after gradients. Exact.
extern const PassRow kScalarFills{
    .name = "scalar_fills",
    .doc = "Makes tensors of one value scalars where they are broadcast. After gradients.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions&) { return scalar_fills(g); }};

}  // namespace trireme::graph
