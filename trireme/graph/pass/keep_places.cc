// max_pool2d and all its gradients become max_pool2d_places and max_pool2d_places_grad.
#include "trireme/graph/pass/passes.h"

#include <set>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/fused/max_pool2d_places.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

Result<Graph> keep_places(const Graph& graph) {
  Rewriter rewriter(graph);
  const Overview over(graph);
  const Mutations mutations(graph);
  // The pooling that a gradient belongs to, or -1.
  const auto pool_of = [&](std::int32_t id) -> std::int32_t {
    if (!over.is(id, op::kMaxPool2dGrad)) return -1;
    const Node& grad = graph.node(id);
    const std::int32_t pool = grad.inputs[1].node;
    if (!over.is(pool, op::kMaxPool2d) || graph.node(pool).inputs[0] != grad.inputs[0] ||
        graph.node(pool).attrs != grad.attrs || mutations.between(grad.inputs[0], pool, id))
      return -1;
    const auto g = op::detail::pool_geometry(graph.type(grad.inputs[0]), grad.attrs);
    return g.ok() && op::detail::has_places(*g) ? pool : -1;
  };
  std::set<std::int32_t> pools;
  for (std::int32_t id = 0; id < graph.size(); ++id)
    if (const std::int32_t pool = pool_of(id); pool >= 0) pools.insert(pool);
  ValueMap<Value> places(graph);
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const std::int32_t pool = pool_of(id);
    if (pools.contains(id)) {
      TR_ASSIGN_OR_RETURN(const Value y, rewriter.add_in_place_of(id, op::kMaxPool2dPlaces,
                                                                  rewriter.at(node.inputs), node.attrs));
      rewriter.map({id, 0}, y);
      places[Value{id, 0}] = {y.node, 1};
    } else if (pool >= 0) {
      Attrs attrs = node.attrs;
      const auto dims = node.outputs[0].shape.dims();
      attrs.set("input_shape", std::vector<std::int64_t>(dims.begin(), dims.end()));
      std::vector<Value> inputs{rewriter.at(node.inputs[2]), places[Value{pool, 0}]};
      TR_ASSIGN_OR_RETURN(const Value dx, rewriter.add_in_place_of(id, op::kMaxPool2dPlacesGrad,
                                                                   std::move(inputs), std::move(attrs)));
      rewriter.map({id, 0}, dx);
    } else {
      TR_RETURN_IF_ERROR(rewriter.copy(id).status());
    }
  }
  return rewriter.finish();
}

}  // namespace

// Max pooling whose gradient is there too keeps a byte per window, the place of its maximum, for it: the
// pooled image need not be kept, nor are maxima looked for again. Run it after gradients and cse.
// Exact.
extern const PassRow kKeepPlaces{
    .name = "keep_places",
    .doc = "Keeps where maxima of pooling are instead of their images. After gradients.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions&) { return keep_places(g); }};

}  // namespace trireme::graph
