// Mixed precision. Products run in the low dtype (their kernels add in f32), ops that only move or select
// elements stay in the dtype they get, everything else sees f32. Casts are made once per Value and direction.
#include <algorithm>
#include <array>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// Where nearly all flops are.
constexpr std::array<const OpDef*, 5> kProducts{&op::kAttention, &op::kConv2d, &op::kConv2dTranspose,
                                                &op::kLocallyConnected2d, &op::kMatmul};
// Exact on the elements they get: no rounding is added by staying low.
constexpr std::array<const OpDef*, 5> kMoves{&op::kMaxPool2d, &op::kRelu, &op::kReshape, &op::kStopGradient,
                                             &op::kTranspose};

template <std::size_t N>
bool is_one_of(const std::array<const OpDef*, N>& ops, const OpDef& def) {
  return std::find(ops.begin(), ops.end(), &def) != ops.end();
}

class Lowering {
 public:
  Lowering(const Graph& graph, DType dtype) : graph_(graph), dtype_(dtype), rewriter_(graph), low_(graph) {}

  Result<Graph> run() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) TR_RETURN_IF_ERROR(visit(i));
    for (const auto& [name, v] : graph_.outputs()) TR_RETURN_IF_ERROR(full(v).status());
    return rewriter_.finish();
  }

 private:
  bool is_f32(Value v) const { return graph_.type(v).dtype == DType::kF32; }

  bool runs_low(const Node& node) const {
    if (!node.forms.is_plain()) return false;
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](Value v) { return is_f32(v); }))
      return false;
    if (is_one_of(kProducts, *node.def)) return true;
    return is_one_of(kMoves, *node.def) && std::all_of(node.inputs.begin(), node.inputs.end(), [&](Value v) {
             return !is_f32(v) || (!low_[v].is_null() && rewriter_.at(v).is_null());
           });
  }

  Status visit(std::int32_t id) {
    const Node& node = graph_.node(id);
    const bool lower = runs_low(node);
    std::vector<Value> inputs;
    for (const Value v : node.inputs) {
      Result<Value> now = lower && is_f32(v) ? low(v) : full(v);
      if (!now.ok()) return now.status();
      inputs.push_back(*now);
    }
    TR_ASSIGN_OR_RETURN(const Value v, rewriter_.copy(id, std::move(inputs), node.attrs));
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k) {
      const Value old{id, k}, now{v.node, k};
      if (rewriter_.to().type(now) == graph_.type(old)) continue;
      low_[old] = now;
      rewriter_.map(old, {});  // full() makes the f32 value when somebody wants it
    }
    return {};
  }

  // The value in the low dtype.
  Result<Value> low(Value v) {
    if (low_[v].is_null()) {
      TR_ASSIGN_OR_RETURN(low_[v], cast(v, rewriter_.at(v), dtype_));
    }
    return Value(low_[v]);
  }
  // The value in the dtype of the old graph.
  Result<Value> full(Value v) {
    if (rewriter_.at(v).is_null()) {
      TR_ASSIGN_OR_RETURN(const Value up, cast(v, low_[v], graph_.type(v).dtype));
      rewriter_.map(v, up);
    }
    return rewriter_.at(v);
  }
  Result<Value> cast(Value old, Value from, DType to) {
    const Node& node = graph_.node(old.node);
    return rewriter_.add(op::kCast, {from}, {{"dtype", to}}, fmt::format("{}/{}", node.name, dtype_name(to)),
                         node.site);
  }

  const Graph& graph_;
  DType dtype_;
  Rewriter rewriter_;
  ValueMap<Value> low_;  // in the new graph; null: there is none
};

}  // namespace

Result<Graph> lower_precision(const Graph& graph, DType dtype) {
  if (dtype != DType::kBF16 && dtype != DType::kF16)
    return error(Code::kInvalid, "[graph] lower_precision: got {}, expected bf16 or f16", dtype_name(dtype));
  return Lowering(graph, dtype).run();
}

extern const PassRow kLowerPrecision{
    .name = "lower_precision",
    .doc = "Computes products in bf16 or f16; variables and outputs stay f32. Before gradients.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions& o) { return lower_precision(g, o.dtype); }};

}  // namespace trireme::graph
