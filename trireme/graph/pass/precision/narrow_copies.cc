// Values that products read in bf16 are read so by others, too, and nobody keeps them in f32:
//   relu's gradient asks of y only whether it is positive. Below 2^-134 a positive y is 0 in bf16;
//   gradients of sigmoid and tanh read y, gradients of biases what the gradients of products read;
//   max pooling reads what a product in bf16, a bias and relu have made. Rounding keeps the order, so what it
//   selects is the rounded maximum; its gradient may find two elements equal that were not.
// Tolerant. Not for f16, whose zero begins at 2^-25.
#include "trireme/graph/pass/passes.h"

#include <algorithm>
#include <array>
#include <optional>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/fused/max_pool2d_places.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

constexpr DType kLow = DType::kBF16;

class Narrower : private RewritingPass {
 public:
  explicit Narrower(const Graph& graph) : RewritingPass(graph), low_(graph) {}

  Result<Graph> run() {
    for (std::int32_t id = 0; id < graph_.size(); ++id) {
      if (rewriter_.moved(id) >= 0) continue;  // a cast that was wanted earlier
      TR_RETURN_IF_ERROR(visit(id));
    }
    return rewriter_.finish();
  }

 private:
  template <std::size_t N>
  bool is_one_of(std::int32_t id, const std::array<const OpDef*, N>& defs) const {
    return std::any_of(defs.begin(), defs.end(), [&](const OpDef* def) { return is(id, *def); });
  }

  Status visit(std::int32_t id) {
    const Node& node = graph_.node(id);
    std::vector<Value> inputs = rewriter_.at(node.inputs);
    const bool pools = is_one_of(id, std::array{&op::kMaxPool2d, &op::kMaxPool2dGrad, &op::kMaxPool2dPlaces});
    if (pools && is_made_low(node.inputs[0])) TR_RETURN_IF_ERROR(make_copy(node.inputs[0]));
    for (std::size_t i = 0; i < inputs.size() && node.outputs[0].dtype == DType::kF32; ++i) {
      const Value v = node.inputs[i];
      if (!narrows(id, i) ||
          !(low_[v].is_null() ? find_copy(v, is(id, op::kBiasGrad) ? graph_.size() : id) : true))
        continue;
      TR_RETURN_IF_ERROR(make_copy(v));
      std::vector<Value> low{low_[v]};
      TR_ASSIGN_OR_RETURN(inputs[i], rewriter_.add(op::kCast, std::move(low), {{"dtype", DType::kF32}},
                                                   node.name + "/low", node.site));
    }
    TR_RETURN_IF_ERROR(rewriter_.copy(id, std::move(inputs), node.attrs).status());
    // What is selected among rounded values is one of them.
    if (is_one_of(id, std::array{&op::kMaxPool2d, &op::kMaxPool2dPlaces}) && !low_[node.inputs[0]].is_null())
      return make_copy({id, 0});
    return {};
  }

  // Whether the node can as well read input i in bf16.
  bool narrows(std::int32_t id, std::size_t i) const {
    const Value v = graph_.node(id).inputs[i];
    if (graph_.type(v).dtype != DType::kF32) return false;
    if (is(id, op::kReluGrad)) return i == 1;
    if (is(id, op::kBiasGrad)) return true;
    if (is_one_of(id, std::array{&op::kMaxPool2d, &op::kMaxPool2dGrad, &op::kMaxPool2dPlaces}))
      return i < 2 && !low_[graph_.node(id).inputs[0]].is_null();
    const bool curve = is_one_of(v.node, std::array{&op::kSigmoid, &op::kTanh});
    return curve && is_one_of(id, std::array{&op::kMul, &op::kSub, &op::kSquare}) &&
           graph_.type(v).shape == graph_.node(id).outputs[0].shape;
  }
  // Made by a product in bf16, and since then only shifted and cut off.
  bool is_made_low(Value v) const {
    for (int steps = 0; steps < 4; ++steps) {
      const Node& node = graph_.node(v.node);
      if (node.inputs.empty()) return false;
      if (is(v.node, op::kCast)) return graph_.type(node.inputs[0]).dtype == kLow;
      if (!is_one_of(v.node, std::array{&op::kRelu, &op::kBiasAdd})) return false;
      v = node.inputs[0];
    }
    return false;
  }
  // The cast of v to bf16 among the nodes before `end`.
  std::optional<std::int32_t> find_copy(Value v, std::int32_t end) const {
    for (const std::int32_t user : readers(v))
      if (user < end && is(user, op::kCast) && graph_.node(user).outputs[0].dtype == kLow) return user;
    return std::nullopt;
  }
  // Makes low_[v], from the cast that is in the graph if there is one.
  Status make_copy(Value v) {
    if (!low_[v].is_null()) return {};
    if (const std::optional<std::int32_t> copy = find_copy(v, graph_.size())) {
      if (rewriter_.moved(*copy) < 0) TR_RETURN_IF_ERROR(rewriter_.copy(*copy).status());
      low_[v] = rewriter_.at(Value{*copy, 0});
      return {};
    }
    const Node& node = graph_.node(v.node);
    std::vector<Value> wide{rewriter_.at(v)};
    TR_ASSIGN_OR_RETURN(low_[v], rewriter_.add(op::kCast, std::move(wide), {{"dtype", kLow}},
                                               node.name + "/narrow", node.site));
    return {};
  }

  ValueMap<Value> low_;  // copies in the new graph; null: none yet
};

}  // namespace

// Gradients of relu, sigmoid, tanh and biases, and max pooling, read the bf16 copy of what a product reads or
// has made, so that nobody keeps it in f32. Run it after gradients and cse,
// and absorb_casts after it. Tolerant.
extern const PassRow kNarrowCopies{
    .name = "narrow_copies",
    .doc = "Lets pooling and gradients of activations and biases read bf16 copies. After gradients.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions&) { return Narrower(g).run(); }};

}  // namespace trireme::graph
