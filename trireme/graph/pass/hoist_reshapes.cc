// Elementwise ops between reshapes are computed in the shape that their operand had before: a reshape that
// stood between two of them comes after both, so that fusion sees them side by side. Exact: the same elements
// in the same order.
#include <algorithm>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/fused/program.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

class Hoister : private RewritingPass {
 public:
  explicit Hoister(const Graph& graph) : RewritingPass(graph), base_(graph) {}

  Result<Graph> run() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) TR_RETURN_IF_ERROR(visit(i));
    for (const auto& [name, v] : graph_.outputs()) TR_RETURN_IF_ERROR(in_own_shape(v).status());
    return rewriter_.finish();
  }

 private:
  Status visit(std::int32_t id) {
    const Node& node = graph_.node(id);
    if (is(id, op::kReshape) && graph_.node(node.inputs[0].node).def != &op::kVariable) {
      const Value from = node.inputs[0];
      base_[Value{id, 0}] = base_[from].is_null() ? rewriter_.at(from) : Value(base_[from]);
      return {};
    }
    if (movable(id) && node.forms.is_plain() && node.def != &op::kBiasAdd &&
        op::detail::is_fusable(*node.def)) {
      if (const std::optional<Shape> shape = shape_to_use(node)) return compute_in(id, *shape);
    }
    return copy(id);
  }

  Status copy(std::int32_t id) {
    const Node& node = graph_.node(id);
    std::vector<Value> inputs;
    for (const Value v : node.inputs) {
      TR_ASSIGN_OR_RETURN(const Value now, in_own_shape(v));
      inputs.push_back(now);
    }
    return rewriter_.copy(id, std::move(inputs), node.attrs).status();
  }

  // The shape of fewest dimensions that an operand had, where every other operand can follow.
  std::optional<Shape> shape_to_use(const Node& node) const {
    const Shape& own = node.outputs[0].shape;
    if (own.rank() == 0 || own.num_elems() < 2) return std::nullopt;
    std::optional<Shape> to;
    for (const Value v : node.inputs) {
      if (graph_.type(v).shape != own || base_[v].is_null()) continue;
      const Shape& before = type_of(base_[v]).shape;
      if (before.rank() < (to ? to->rank() : own.rank())) to = before;
    }
    if (!to) return std::nullopt;
    const std::int64_t last = own[own.rank() - 1];
    for (const Value v : node.inputs) {
      const Shape& shape = graph_.type(v).shape;
      const bool vector =
          shape.rank() == 1 && shape[0] == last && to->rank() > 0 && (*to)[to->rank() - 1] == last;
      if (shape != own && shape.rank() != 0 && !vector) return std::nullopt;
    }
    return to;
  }

  Status compute_in(std::int32_t id, const Shape& shape) {
    const Node& node = graph_.node(id);
    std::vector<Value> inputs;
    for (const Value v : node.inputs) {
      Result<Value> now =
          graph_.type(v).shape == node.outputs[0].shape ? in_shape(v, shape) : in_own_shape(v);
      if (!now.ok()) return now.status();
      inputs.push_back(*now);
    }
    TR_ASSIGN_OR_RETURN(const Value made,
                        rewriter_.add_in_place_of(id, *node.def, std::move(inputs), node.attrs));
    base_[Value{id, 0}] = made;
    return {};
  }

  const TensorType& type_of(Value now) const { return rewriter_.to().type(now); }

  Result<Value> in_shape(Value v, const Shape& shape) {
    const Value from = base_[v].is_null() ? rewriter_.at(v) : Value(base_[v]);
    if (type_of(from).shape == shape) return from;
    const Node& node = graph_.node(v.node);
    const auto dims = shape.dims();
    std::vector<Value> inputs{from};
    Attrs attrs{{"shape", std::vector<std::int64_t>(dims.begin(), dims.end())}};
    // The reshape that was there keeps its name.
    if (node.def == &op::kReshape && node.outputs[0].shape == shape)
      return rewriter_.add_in_place_of(v.node, op::kReshape, std::move(inputs), node.attrs);
    return rewriter_.add(op::kReshape, std::move(inputs), std::move(attrs), node.name + "/reshape",
                         node.site);
  }
  Result<Value> in_own_shape(Value v) {
    if (rewriter_.at(v).is_null()) {
      TR_ASSIGN_OR_RETURN(const Value now, in_shape(v, graph_.type(v).shape));
      rewriter_.map(v, now);
    }
    return rewriter_.at(v);
  }

  ValueMap<Value> base_;  // in the new graph: the same elements in the shape that they were computed in;
                          // null: as they are
};

}  // namespace

// Elementwise ops are computed in the shape that their operand had before it was reshaped, so that fusion
// finds them side by side. Run it after gradients and before fuse. Exact.
extern const PassRow kHoistReshapes{
    .name = "hoist_reshapes",
    .doc = "Computes elementwise ops before reshapes instead of after. After gradients.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions&) { return Hoister(g).run(); }};

}  // namespace trireme::graph
