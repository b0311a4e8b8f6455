// Casts next to ops that can read or write another dtype by themselves become forms of their operands,
// casts go past ops that only move elements, and every run of elementwise ops gets its own copy of a widening
// cast, so that fusion turns it into a load. 16-bit values then travel as they are. Exact: the same roundings
// of the same values.
#include <algorithm>
#include <map>
#include <optional>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/forms.h"
#include "trireme/op/fused/max_pool2d_places.h"
#include "trireme/op/fused/program.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// Its elements are elements of x.
bool is_max_pool(const OpDef& def) { return &def == &op::kMaxPool2d || &def == &op::kMaxPool2dPlaces; }
bool is_low(DType d) { return d == DType::kBF16 || d == DType::kF16; }

class Absorber : private RewritingPass {
 public:
  Absorber(const Graph& graph, const std::set<std::string, std::less<>>& ops)
      : RewritingPass(graph),
        ops_(ops),
        wanted_(graph),
        low_(graph),
        cast_at_(graph, -1),
        remade_at_(graph, -1) {
    for (std::int32_t i = graph.size() - 1; i >= 0; --i)
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph.node(i).outputs.size()); ++k)
        wanted_[Value{i, k}] = wanted_as({i, k});
  }

  Result<Graph> run() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) TR_RETURN_IF_ERROR(visit(i));
    for (const auto& [name, v] : graph_.outputs()) TR_RETURN_IF_ERROR(full(v).status());
    return rewriter_.finish();
  }

 private:
  bool moves(std::int32_t id) const {
    const OpDef* def = graph_.node(id).def;
    return movable(id) && graph_.node(id).forms.is_plain() &&
           (def == &op::kReshape || def == &op::kTranspose || def == &op::kSplit || def == &op::kConcat);
  }
  // Whether the node gives elements of v, or 0: rounding them before is rounding them after.
  bool passes(std::int32_t id, Value v) const {
    const Node& node = graph_.node(id);
    return movable(id) && (node.def == &op::kRelu || node.def == &op::kReluGrad) && node.inputs[0] == v &&
           (node.inputs.size() == 1 || node.inputs[1] != v);
  }
  bool is_cast(std::int32_t id, bool to_low) const {
    const Node& node = graph_.node(id);
    if (!movable(id) || node.def != &op::kCast) return false;
    const DType from = graph_.type(node.inputs[0]).dtype, to = node.outputs[0].dtype;
    return to_low ? from == DType::kF32 && is_low(to) : to == DType::kF32 && is_low(from);
  }

  // The 16-bit dtype that all readers make of a f32 value, at once or after moving it; nothing where somebody
  // wants it as it is. Readers come later and are known.
  std::optional<DType> wanted_as(Value v) const {
    if (is_output(v) || graph_.type(v).dtype != DType::kF32 || readers(v).empty()) return std::nullopt;
    std::optional<DType> to;
    const auto agree = [&](std::optional<DType> d) {
      if (!d || (to && *to != *d)) return false;
      to = d;
      return true;
    };
    for (const std::int32_t user : readers(v)) {
      const Node& node = graph_.node(user);
      if (is_cast(user, true)) {
        if (!agree(node.outputs[0].dtype)) return std::nullopt;
        continue;
      }
      if (passes(user, v)) {
        if (!agree(wanted_[Value{user, 0}])) return std::nullopt;
        continue;
      }
      if (!moves(user)) return std::nullopt;
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
        if (!agree(wanted_[Value{user, k}])) return std::nullopt;
    }
    return to;
  }

  Status visit(std::int32_t id) {
    const Node& node = graph_.node(id);
    if (is_cast(id, false)) {
      low_[Value{id, 0}] = rewriter_.at(node.inputs[0]);
      // Made where somebody reads it; a result at once, so that nobody keeps the 16 bits until the end.
      return is_output(Value{id, 0}) ? rewriter_.copy(id).status() : Status();
    }
    if (is_cast(id, true) && low_dtype(node.inputs[0]) == node.outputs[0].dtype) {
      rewriter_.map({id, 0}, low_[node.inputs[0]]);
      return {};
    }
    if (moves(id)) return move(id);
    const bool elementwise = movable(id) && node.forms.is_plain() && op::detail::is_fusable(*node.def);
    // Fusion does more for elementwise ops. Casts that a node has already are left as they are.
    if (movable(id) && !elementwise && ops_.contains(node.def->name) && !node.forms.casts())
      return cast_in(id);
    if (!elementwise && !node.def->has(op::kFeed)) ++run_;
    std::optional<DType> chosen_from;
    if (elementwise && chooses(node)) chosen_from = low_dtype(node.inputs[0]);
    std::vector<Value> inputs;
    for (const Value v : node.inputs) {
      TR_ASSIGN_OR_RETURN(const Value now, full(v));
      inputs.push_back(now);
    }
    TR_RETURN_IF_ERROR(rewriter_.copy(id, std::move(inputs), node.attrs).status());
    if (chosen_from) {
      TR_RETURN_IF_ERROR(low({id, 0}, *chosen_from).status());
      rewriter_.map({id, 0}, {});
      return {};
    }
    if (elementwise && is_cheap(node)) remade_at_[Value{id, 0}] = run_;
    return narrow_outputs(id, elementwise);
  }

  // Whether a node is made of one 16-bit value and vectors: a later run of elementwise ops computes it again
  // from these, which takes half the bytes of keeping it.
  bool is_cheap(const Node& node) const {
    if (node.outputs[0].dtype != DType::kF32) return false;
    int wide = 0;
    for (const Value v : node.inputs) {
      if (graph_.type(v).shape == node.outputs[0].shape)
        wide += is_cast(v.node, false) ? 1 : 2;
      else if (graph_.type(v).shape.rank() > 1 || !graph_.node(v.node).def->has(op::kFeed))
        return false;
    }
    return wide == 1 && node.inputs.size() > 1;
  }

  // Whether every element is one of input 0 that was made in 16 bits, or 0: 16 bits then hold the result.
  bool chooses(const Node& node) const {
    return (node.def == &op::kRelu || node.def == &op::kReluGrad) && node.outputs[0].dtype == DType::kF32 &&
           is_made_low(node.inputs[0]);
  }

  // Right behind the node that makes them, where fusion finds them.
  Status narrow_outputs(std::int32_t id, bool elementwise) {
    const Node& node = graph_.node(id);
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      if (const std::optional<DType> to = wanted_[Value{id, k}])
        TR_RETURN_IF_ERROR(low({id, k}, *to).status());
    if (!elementwise || wanted_[Value{id, 0}]) return {};
    // Some readers want it in 16 bits: a group can write both at once.
    for (const std::int32_t user : readers(Value{id, 0}))
      if (is_cast(user, true)) TR_RETURN_IF_ERROR(low({id, 0}, graph_.node(user).outputs[0].dtype).status());
    return {};
  }

  // A move of 16-bit values where all its operands are there in 16 bits, or its results are wanted so.
  Status move(std::int32_t id) {
    const Node& node = graph_.node(id);
    constexpr DType kAsItIs = DType::kF32;
    DType as = wanted_[Value{id, 0}].value_or(kAsItIs);
    for (std::size_t k = 1; k < node.outputs.size(); ++k)
      if (wanted_[Value{id, static_cast<std::int32_t>(k)}].value_or(kAsItIs) != as) as = kAsItIs;
    const std::optional<DType> first = low_dtype(node.inputs[0]);
    if (first && std::all_of(node.inputs.begin(), node.inputs.end(),
                             [&](Value v) { return low_dtype(v) == first && is_made_low(v); }))
      as = *first;
    if (node.def != &op::kReshape) ++run_;
    std::vector<Value> inputs;
    for (const Value v : node.inputs) {
      Result<Value> now = as != kAsItIs ? low(v, as) : full(v);
      if (!now.ok()) return now.status();
      inputs.push_back(*now);
    }
    TR_ASSIGN_OR_RETURN(const Value made, rewriter_.copy(id, std::move(inputs), node.attrs));
    for (std::int32_t k = 0; as != kAsItIs && k < static_cast<std::int32_t>(node.outputs.size()); ++k) {
      low_[Value{id, k}] = {made.node, k};
      rewriter_.map({id, k}, {});
    }
    return {};
  }

  // The node with its casts as forms of its operands; its orders stay.
  Status cast_in(std::int32_t id) {
    ++run_;
    const Node& node = graph_.node(id);
    op::Forms forms = node.forms;
    forms.inputs.resize(node.inputs.size());
    forms.outputs.resize(node.outputs.size());
    std::vector<Value> inputs;
    for (const Value v : node.inputs) {
      const bool from_low = is_made_low(v);
      if (from_low) forms.inputs[inputs.size()].dtype = DType::kF32;
      inputs.push_back(from_low ? Value(low_[v]) : rewriter_.at(v));
    }
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      forms.outputs[static_cast<std::size_t>(k)].dtype = wanted_[Value{id, k}];
    if (is_max_pool(*node.def) && forms.inputs[0].dtype) forms.outputs[0].dtype = low_dtype(node.inputs[0]);
    if (!forms.casts()) return rewriter_.copy(id, std::move(inputs), node.attrs).status();
    TR_ASSIGN_OR_RETURN(const Value v,
                        rewriter_.add_in_place_of(id, *node.def, std::move(inputs), node.attrs, forms));
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k) {
      if (forms.outputs[static_cast<std::size_t>(k)].dtype)
        low_[Value{id, k}] = {v.node, k};
      else
        rewriter_.map({id, k}, {v.node, k});
    }
    return {};
  }

  std::optional<DType> low_dtype(Value v) const {
    if (low_[v].is_null()) return std::nullopt;
    return rewriter_.to().type(low_[v]).dtype;
  }
  // Whether the 16 bits are all there is of it; else they are a rounded copy.
  bool is_made_low(Value v) const {
    return !low_[v].is_null() && (rewriter_.at(v).is_null() || cast_at_[v] >= 0);
  }
  // The value in 16 bits.
  Result<Value> low(Value v, DType dtype) {
    if (low_dtype(v) != dtype) {
      TR_ASSIGN_OR_RETURN(const Value wide, full(v));
      TR_ASSIGN_OR_RETURN(low_[v], cast(v, wide, dtype));
    }
    return Value(low_[v]);
  }
  // The value in f32; a cast of it is shared by the run of elementwise ops under way.
  Result<Value> full(Value v) {
    if (remade_at_[v] >= 0 && remade_at_[v] != run_ && !is_output(v)) {
      const Node& node = graph_.node(v.node);
      std::vector<Value> inputs;
      for (const Value in : node.inputs) {
        TR_ASSIGN_OR_RETURN(const Value now, full(in));
        inputs.push_back(now);
      }
      TR_ASSIGN_OR_RETURN(const Value again,
                          rewriter_.add(*node.def, std::move(inputs), node.attrs, node.name, node.site));
      rewriter_.map(v, again);
      remade_at_[v] = run_;
    }
    const bool kept = !rewriter_.at(v).is_null() && cast_at_[v] < 0;
    if (!kept && (rewriter_.at(v).is_null() || cast_at_[v] != run_)) {
      TR_ASSIGN_OR_RETURN(const Value wide, cast(v, low_[v], DType::kF32));
      rewriter_.map(v, wide);
      cast_at_[v] = run_;
    }
    return rewriter_.at(v);
  }
  Result<Value> cast(Value old, Value from, DType to) {
    const Node& node = graph_.node(old.node);
    std::vector<Value> inputs{from};
    return rewriter_.add(op::kCast, std::move(inputs), {{"dtype", to}},
                         fmt::format("{}/{}", node.name, dtype_name(to)), node.site);
  }

  const std::set<std::string, std::less<>>& ops_;
  ValueMap<std::optional<DType>> wanted_;
  ValueMap<Value> low_;               // in the new graph; null: not in 16 bits
  std::int32_t run_ = 0;              // of elementwise ops, counted
  ValueMap<std::int32_t> cast_at_;    // the run that a value was cast to f32 for; -1: it was made in f32
  ValueMap<std::int32_t> remade_at_;  // the run that a cheap value was computed for; -1: it is not cheap
};

}  // namespace

// 16-bit values travel as they are: casts to and from f32 become forms of the operands of `adaptable` ops,
// which read and write either, and part of the groups that fuse makes after it. Run it after gradients and
// cse, and dead_code after it: casts that nobody reads are still there. Exact.
extern const PassRow kAbsorbCasts{
    .name = "absorb_casts",
    .doc = "Makes casts of 16-bit values part of the ops beside them. After gradients.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions& o) { return Absorber(g, o.adaptable).run(); }};

}  // namespace trireme::graph
