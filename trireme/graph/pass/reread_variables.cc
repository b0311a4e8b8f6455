// Weights in another dtype or order are made in the first phase and kept for those behind it. Where an update
// may come between two phases, they are made again, of what the variables are by then.
#include "trireme/graph/pass/recompute.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

class VariablesAgain : private RewritingPass {
 public:
  VariablesAgain(const Graph& graph, std::span<const std::string> first)
      : RewritingPass(graph),
        is_first_(static_cast<std::size_t>(graph.size()), false),
        kinds_(static_cast<std::size_t>(graph.size()), Kind::kOther),
        again_(graph) {
    for (const std::string& name : first)
      if (const auto v = graph.find_output(name)) is_first_[static_cast<std::size_t>(v->node)] = true;
    for (std::int32_t i = graph.size() - 1; i >= 0; --i)
      if (is_first_[static_cast<std::size_t>(i)])
        for (const Value v : graph.node(i).inputs) is_first_[static_cast<std::size_t>(v.node)] = true;
    for (std::int32_t i = 0; i < graph.size(); ++i) kinds_[static_cast<std::size_t>(i)] = kind_of(i);
  }

  Result<Graph> run() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(i);
      std::vector<Value> inputs = rewriter_.at(node.inputs);
      for (std::size_t k = 0; k < inputs.size() && !is_first_[static_cast<std::size_t>(i)]; ++k)
        if (is_kept(node.inputs[k])) {
          TR_ASSIGN_OR_RETURN(inputs[k], again(node.inputs[k]));
        }
      TR_RETURN_IF_ERROR(rewriter_.copy(i, std::move(inputs), node.attrs).status());
    }
    return rewriter_.finish();
  }

 private:
  enum class Kind : std::uint8_t { kConstant, kVariable, kOfVariables, kOther };

  Kind kind_of(std::int32_t id) const {
    const Node& node = graph_.node(id);
    if (node.def == &op::kVariable) return Kind::kVariable;
    if (!movable(id)) return Kind::kOther;
    Kind kind = Kind::kConstant;
    for (const Value v : node.inputs) {
      const Kind in = kinds_[static_cast<std::size_t>(v.node)];
      if (in == Kind::kOther) return Kind::kOther;
      if (in != Kind::kConstant) kind = Kind::kOfVariables;
    }
    return kind;
  }
  bool is_kept(Value v) const {
    const auto at = static_cast<std::size_t>(v.node);
    return kinds_[at] == Kind::kOfVariables && is_first_[at];
  }
  Result<Value> again(Value v) {
    if (const Value made = again_[v]; !made.is_null()) return made;
    const Node& node = graph_.node(v.node);
    std::vector<Value> inputs = rewriter_.at(node.inputs);
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (is_kept(node.inputs[k])) {
        TR_ASSIGN_OR_RETURN(inputs[k], again(node.inputs[k]));
      }
    TR_ASSIGN_OR_RETURN(const Value now, rewriter_.add(*node.def, std::move(inputs), node.attrs,
                                                       node.name + "/again", node.site, node.forms));
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      again_[Value{v.node, k}] = {now.node, k};
    return again_[v];
  }

  std::vector<bool> is_first_;  // by node: the first phase needs it
  std::vector<Kind> kinds_;     // by node
  ValueMap<Value> again_;
};

}  // namespace

Result<Graph> reread_variables(const Graph& graph, std::span<const std::string> first) {
  return VariablesAgain(graph, first).run();
}

}  // namespace trireme::graph
