#include "trireme/graph/pass/passes.h"

#include <algorithm>
#include <map>
#include <optional>

#include "trireme/graph/builder.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/elementwise/gelu_grad.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// The gradient of a gelu as its OpDef makes it, to look for.
struct Pattern {
  Graph graph;
  Value x, dy, root;
};

Result<Pattern> pattern_of(const TensorType& type, const Attrs& attrs) {
  Pattern p;
  Builder b(p.graph);
  p.x = b.input("x", type.dtype, type.shape);
  p.dy = b.input("dy", type.dtype, type.shape);
  const Value y = b.add_node(op::kGelu, {p.x}, attrs);
  TR_RETURN_IF_ERROR(b.status());
  TR_ASSIGN_OR_RETURN(const auto grads, add_gradients(p.graph, {&y, 1}, {&p.dy, 1}, {&p.x, 1}));
  p.root = grads[0];
  return p;
}

bool same_attrs(const Attrs& a, const Attrs& b) {
  std::string one, other;
  append_attrs(one, a);
  append_attrs(other, b);
  return one == other;
}

class Joiner : private RewritingPass {
 public:
  explicit Joiner(const Graph& graph) : RewritingPass(graph) {}

  Result<Graph> run() {
    TR_RETURN_IF_ERROR(find());
    for (std::int32_t id = 0; id < graph_.size(); ++id) {
      const auto at = found_.find(id);
      if (at == found_.end()) {
        TR_RETURN_IF_ERROR(rewriter_.copy(id).status());
        continue;
      }
      const auto& [gelu, dy] = at->second;
      std::vector<Value> inputs{rewriter_.at(dy), rewriter_.at(graph_.node(gelu).inputs[0])};
      TR_ASSIGN_OR_RETURN(const Value made, rewriter_.add_in_place_of(id, op::kGeluGrad, std::move(inputs),
                                                                      graph_.node(gelu).attrs));
      rewriter_.map({id, 0}, made);
    }
    return rewriter_.finish();  // what the gradient was made of is dead code
  }

 private:
  struct Found {
    std::int32_t gelu;
    Value dy;
  };

  Status find() {
    for (std::int32_t gelu = 0; gelu < graph_.size(); ++gelu) {
      const Node& node = graph_.node(gelu);
      if (!is(gelu, op::kGelu)) continue;
      TR_ASSIGN_OR_RETURN(const Pattern pattern, pattern_of(graph_.type(node.inputs[0]), node.attrs));
      const Node& root = pattern.graph.node(pattern.root.node);
      for (std::int32_t id = 0; id < graph_.size(); ++id) {
        if (graph_.node(id).def != root.def || graph_.node(id).forms != root.forms ||
            graph_.node(id).outputs != root.outputs)
          continue;
        std::optional<Value> dy;
        if (matches(pattern, pattern.root, {id, 0}, node.inputs[0], dy) && dy)
          found_.try_emplace(id, Found{gelu, *dy});
      }
    }
    return {};
  }
  bool matches(const Pattern& p, Value want, Value got, Value x, std::optional<Value>& dy) const {
    if (want == p.x) return got == x;
    if (want == p.dy) {
      if (!dy) dy = got;
      return *dy == got;
    }
    const Node &a = p.graph.node(want.node), &b = graph_.node(got.node);
    if (a.def != b.def || a.forms != b.forms || want.index != got.index || !movable(got.node) ||
        a.outputs != b.outputs || a.inputs.size() != b.inputs.size() || !same_attrs(a.attrs, b.attrs))
      return false;
    for (std::size_t i = 0; i < a.inputs.size(); ++i)
      if (!matches(p, a.inputs[i], b.inputs[i], x, dy)) return false;
    return true;
  }

  std::map<std::int32_t, Found> found_;  // by the last node of the gradient
};

}  // namespace

// The expression that is the gradient of a gelu becomes one gelu_grad. Run it after gradients, and before
// passes that change constants. Tolerant.
extern const PassRow kJoinGeluGrads{
    .name = "join_gelu_grads",
    .doc = "Computes the gradient of gelu in one op. After gradients.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions&) { return Joiner(g).run(); }};

}  // namespace trireme::graph
