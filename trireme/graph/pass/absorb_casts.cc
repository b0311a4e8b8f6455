// Casts next to ops that can read or write another dtype by themselves become part of them (op `adapted`),
// and every run of elementwise ops gets its own copy of a widening cast, so that fusion turns it into a load.
// 16-bit values then travel as they are. Exact: the same roundings happen at the same places.
#include <algorithm>
#include <map>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/fused/adapted.h"
#include "trireme/op/fused/program.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

bool is_low(DType d) { return d == DType::kBF16 || d == DType::kF16; }

class Absorber {
 public:
  Absorber(const Graph& graph, const std::set<std::string, std::less<>>& ops)
      : graph_(graph),
        ops_(ops),
        rewriter_(graph),
        movable_(movable_nodes(graph, /*may_be_random=*/false)),
        users_(users_of(graph)),
        is_output_(graph, false),
        copy_at_(graph, -1) {
    for (const auto& [name, v] : graph.outputs()) is_output_[v] = true;
  }

  Result<Graph> run() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) TR_RETURN_IF_ERROR(visit(i));
    return rewriter_.finish();
  }

 private:
  // From 16 bits to f32.
  bool widens(Value v) const {
    const Node& node = graph_.node(v.node);
    return node.def == &op::kCast && node.outputs[0].dtype == DType::kF32 &&
           is_low(graph_.type(node.inputs[0]).dtype);
  }
  // What all readers make of a f32 value; nothing where somebody wants it as it is.
  std::optional<DType> narrowed_to(Value v) const {
    if (is_output_[v] || graph_.type(v).dtype != DType::kF32 || users_[v].empty()) return std::nullopt;
    std::optional<DType> to;
    for (const std::int32_t user : users_[v]) {
      const Node& node = graph_.node(user);
      const DType dtype = node.outputs[0].dtype;
      if (node.def != &op::kCast || !is_low(dtype) || (to && *to != dtype) || is_output_[Value{user, 0}])
        return std::nullopt;
      to = dtype;
    }
    return to;
  }

  Status visit(std::int32_t id) {
    const Node& node = graph_.node(id);
    if (!rewriter_.at(Value{id, 0}).is_null()) return {};  // a cast that its producer does
    const bool movable = movable_[static_cast<std::size_t>(id)];
    if (movable && ops_.contains(node.def->name)) return adapt(id);
    if (movable && op::detail::is_fusable(*node.def)) return with_own_casts(id);
    if (!node.def->has(op::kFeed)) ++run_;
    return rewriter_.copy(id).status();
  }

  Status adapt(std::int32_t id) {
    ++run_;
    const Node& node = graph_.node(id);
    op::detail::Adapted adapted{node.def, node.attrs, {}, {}};
    std::vector<Value> inputs;
    for (const Value v : node.inputs) {
      const bool from_low = widens(v);
      inputs.push_back(rewriter_.at(from_low ? graph_.node(v.node).inputs[0] : v));
      adapted.in.push_back(from_low ? std::optional(DType::kF32) : std::nullopt);
    }
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      adapted.out.push_back(narrowed_to({id, k}));
    const auto is_set = [](const std::optional<DType>& d) { return d.has_value(); };
    if (std::none_of(adapted.in.begin(), adapted.in.end(), is_set) &&
        std::none_of(adapted.out.begin(), adapted.out.end(), is_set))
      return rewriter_.copy(id).status();
    TR_ASSIGN_OR_RETURN(std::string text, op::detail::adapted_text(adapted));
    TR_ASSIGN_OR_RETURN(const Value v, rewriter_.add_in_place_of(id, op::kAdapted, std::move(inputs),
                                                                 {{"program", std::move(text)}}));
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k) {
      const Value made{v.node, k};
      rewriter_.map({id, k}, made);
      if (adapted.out[static_cast<std::size_t>(k)])
        for (const std::int32_t user : users_[Value{id, k}]) rewriter_.map({user, 0}, made);
    }
    return {};
  }

  // An elementwise op reads widened values through a cast of its run, which shares it.
  Status with_own_casts(std::int32_t id) {
    const Node& node = graph_.node(id);
    std::vector<Value> inputs;
    for (const Value v : node.inputs) {
      if (!widens(v)) {
        inputs.push_back(rewriter_.at(v));
        continue;
      }
      if (copy_at_[v] != run_) {
        const Node& cast = graph_.node(v.node);
        std::vector<Value> from{rewriter_.at(cast.inputs[0])};
        TR_ASSIGN_OR_RETURN(copies_[v.node],
                            rewriter_.add(op::kCast, std::move(from), cast.attrs, cast.name, cast.site));
        copy_at_[v] = run_;
      }
      inputs.push_back(copies_[v.node]);
    }
    return rewriter_.copy(id, std::move(inputs), node.attrs).status();
  }

  const Graph& graph_;
  const std::set<std::string, std::less<>>& ops_;
  Rewriter rewriter_;
  std::vector<bool> movable_;
  ValueMap<std::vector<std::int32_t>> users_;
  ValueMap<bool> is_output_;
  std::int32_t run_ = 0;                  // of elementwise ops, counted
  ValueMap<std::int32_t> copy_at_;        // the run that has a copy of a widening cast
  std::map<std::int32_t, Value> copies_;  // by the cast's node
};

}  // namespace

Result<Graph> absorb_casts(const Graph& graph, const std::set<std::string, std::less<>>& ops) {
  return Absorber(graph, ops).run();
}

}  // namespace trireme::graph
