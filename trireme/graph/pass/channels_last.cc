// Images between convolutions are kept as matrices [N * H * W, C], channels fastest, which is the order that
// convolutions of 16-bit values are fast in. A convolution or pooling sees a matrix as [N,H,W,C] (forms of
// its operands); norms, biases and elementwise ops work on it as it is, since dimension 1 is the channels
// either way. Images are turned around only where another op reads them. Tolerant: sums over images run in
// another order.
#include <algorithm>
#include <array>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/forms.h"
#include "trireme/op/fused/batch_norm_relu.h"
#include "trireme/op/fused/program.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

using Ints = std::vector<std::int64_t>;

// Ops on [N,C,H,W] that do the same on [N * H * W, C].
constexpr std::array kByChannel = {&op::kBiasAdd,
                                   &op::kBiasGrad,
                                   &op::kBatchNorm,
                                   &op::kBatchNormGrad,
                                   &op::kBatchNormRelu,
                                   &op::kBatchNormReluGrad,
                                   &op::kBatchNormAddReluGrad,
                                   &op::kBatchNormInference,
                                   &op::kLocalResponseNorm};
constexpr std::array kAlongAxis = {&op::kConcat, &op::kSplit, &op::kWindowSum};  // the same along dimension 1
constexpr std::array kOverPlanes = {&op::kMean, &op::kSum, &op::kCount};
constexpr std::array kConvolutions = {&op::kConv2d, &op::kConv2dInputGrad, &op::kConv2dFilterGrad,
                                      &op::kConv2dBiasAct};

bool is_in(std::span<const OpDef* const> defs, const OpDef* def) {
  return std::find(defs.begin(), defs.end(), def) != defs.end();
}
bool is_image(const TensorType& type) { return type.shape.rank() == 4; }

class ChannelsLast : private RewritingPass {
 public:
  ChannelsLast(const Graph& graph, const std::set<std::string, std::less<>>& ops)
      : RewritingPass(graph), ops_(ops), roots_(storage_roots(graph)), rows_(graph), last_(graph) {}

  Result<Graph> run() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) TR_RETURN_IF_ERROR(visit(i));
    for (const auto& [name, v] : graph_.outputs()) TR_RETURN_IF_ERROR(plain(v).status());
    return rewriter_.finish();
  }

 private:
  Status visit(std::int32_t id) {
    const Node& node = graph_.node(id);
    if (movable(id) && node.forms.is_plain()) {
      const bool near =
          std::any_of(node.inputs.begin(), node.inputs.end(), [&](Value v) { return is_known_last(v); });
      if (ops_.contains(node.def->name) && (near || is_in(kConvolutions, node.def)) && all_images(node))
        return turn(id);
      if (near && takes_rows(node)) return on_rows(id);
      if (near && is_over_planes(node)) return over_planes(id);
      if (is_spread(id)) return spread(id);
    }
    std::vector<Value> inputs;
    for (const Value v : node.inputs) {
      TR_ASSIGN_OR_RETURN(const Value now, plain(v));
      inputs.push_back(now);
    }
    return rewriter_.copy(id, std::move(inputs), node.attrs).status();
  }

  bool is_known_last(Value v) const { return !rows_[v].is_null() || !last_[v].is_null(); }

  bool all_images(const Node& node) const {
    const auto bias = node.def == &op::kConv2dBiasAct ? 1 : 0;  // the last input
    return std::all_of(node.inputs.begin(), node.inputs.end() - bias,
                       [&](Value v) { return is_image(graph_.type(v)); }) &&
           std::all_of(node.outputs.begin(), node.outputs.end(), is_image);
  }
  bool takes_rows(const Node& node) const {
    if (!node.forms.is_plain()) return false;
    if (is_in(kByChannel, node.def)) return is_image(graph_.type(node.inputs[0]));
    if (is_in(kAlongAxis, node.def)) return all_images(node) && node.attrs.get_int("axis") == 1;
    if (!op::detail::is_fusable(*node.def)) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](Value v) {
      const Shape& shape = graph_.type(v).shape;
      return shape == node.outputs[0].shape || shape.rank() == 0;
    });
  }
  // Sums over planes, and over all but the channels; of a count nothing but the number matters.
  bool is_over_planes(const Node& node) const {
    if (!is_in(kOverPlanes, node.def) || is_image(node.outputs[0])) return false;
    const Ints& axes = node.attrs.get_ints("axes");
    return axes == Ints{2, 3} || axes == Ints{0, 2, 3} || (node.def == &op::kCount && axes.empty());
  }
  // A value per channel, spread over planes for ops that work on rows.
  bool is_spread(std::int32_t id) const {
    const Node& node = graph_.node(id);
    if (node.def != &op::kBroadcastTo || !all_images(node)) return false;
    const Shape& from = graph_.type(node.inputs[0]).shape;
    const auto& users = readers(Value{id, 0});
    return from[2] * from[3] == 1 && std::any_of(users.begin(), users.end(), [&](std::int32_t user) {
             const Node& reader = graph_.node(user);
             return takes_rows(reader) && std::any_of(reader.inputs.begin(), reader.inputs.end(),
                                                      [&](Value v) { return is_known_last(v); });
           });
  }

  Status turn(std::int32_t id) {
    const Node& node = graph_.node(id);
    constexpr op::Form kLast{.order = op::Order::kChannelsLast};
    op::Forms forms = op::forms_of(node.inputs.size(), node.outputs.size());
    std::fill(forms.outputs.begin(), forms.outputs.end(), kLast);
    std::vector<Value> inputs;
    for (const Value v : node.inputs) {
      const bool turns = is_image(graph_.type(v));
      Result<Value> now = turns ? last(v) : plain(v);
      if (!now.ok()) return now.status();
      if (turns) forms.inputs[inputs.size()] = kLast;
      inputs.push_back(*now);
    }
    TR_ASSIGN_OR_RETURN(const Value made, rewriter_.add_in_place_of(id, *node.def, std::move(inputs),
                                                                    node.attrs, std::move(forms)));
    for (std::int32_t k = 0; k < std::ssize(node.outputs); ++k) last_[Value{id, k}] = {made.node, k};
    return {};
  }

  Status on_rows(std::int32_t id) {
    const Node& node = graph_.node(id);
    std::vector<Value> inputs;
    for (const Value v : node.inputs) {
      Result<Value> now = is_image(graph_.type(v)) ? rows(v) : plain(v);
      if (!now.ok()) return now.status();
      inputs.push_back(*now);
    }
    TR_ASSIGN_OR_RETURN(const Value made,
                        rewriter_.add_in_place_of(id, *node.def, std::move(inputs), node.attrs));
    for (std::int32_t k = 0; k < std::ssize(node.outputs); ++k) {
      const Value now{made.node, k};
      if (is_image(node.outputs[static_cast<std::size_t>(k)]))
        rows_[Value{id, k}] = now;
      else
        rewriter_.map({id, k}, now);
    }
    return {};
  }

  Status over_planes(std::int32_t id) {
    const Node& node = graph_.node(id);
    TR_ASSIGN_OR_RETURN(const Value x, last(node.inputs[0]));
    Attrs attrs = node.attrs;
    Ints axes = attrs.get_ints("axes");
    for (std::int64_t& axis : axes)
      if (axis > 1) --axis;
    attrs.set("axes", std::move(axes));
    std::vector<Value> inputs{x};
    TR_ASSIGN_OR_RETURN(const Value made,
                        rewriter_.add_in_place_of(id, *node.def, std::move(inputs), std::move(attrs)));
    rewriter_.map({id, 0}, made);
    return {};
  }

  Status spread(std::int32_t id) {
    const Node& node = graph_.node(id);
    TR_ASSIGN_OR_RETURN(const Value x, last(node.inputs[0]));
    const Shape& s = node.outputs[0].shape;
    std::vector<Value> inputs{x};
    Attrs attrs{{"shape", Ints{s[0], s[2], s[3], s[1]}}};
    TR_ASSIGN_OR_RETURN(const Value made,
                        rewriter_.add_in_place_of(id, op::kBroadcastTo, std::move(inputs), std::move(attrs)));
    last_[Value{id, 0}] = made;
    return {};
  }

  // The value as a matrix, as [N,H,W,C], and as it was.
  Result<Value> rows(Value v) {
    if (!rows_[v].is_null()) return Value(rows_[v]);
    TR_ASSIGN_OR_RETURN(const Value from, last(v));
    const Shape& s = graph_.type(v).shape;
    TR_ASSIGN_OR_RETURN(const Value now, reshape(v, from, {s[0] * s[2] * s[3], s[1]}));
    if (keeps(v)) rows_[v] = now;
    return now;
  }
  Result<Value> last(Value v) {
    if (!last_[v].is_null()) return Value(last_[v]);
    const Shape& s = graph_.type(v).shape;
    const Ints dims{s[0], s[2], s[3], s[1]};
    Result<Value> now = !rows_[v].is_null() ? reshape(v, rows_[v], dims)
                        : is_same_order(s)  ? reshape(v, rewriter_.at(v), dims)
                                            : transpose(v, rewriter_.at(v), {0, 2, 3, 1});
    if (now.ok() && keeps(v)) last_[v] = *now;
    return now;
  }
  Result<Value> plain(Value v) {
    if (!rewriter_.at(v).is_null()) return rewriter_.at(v);
    TR_ASSIGN_OR_RETURN(const Value from, last(v));
    const Shape& s = graph_.type(v).shape;
    Result<Value> now =
        is_same_order(s) ? reshape(v, from, {s[0], s[1], s[2], s[3]}) : transpose(v, from, {0, 3, 1, 2});
    if (now.ok()) rewriter_.map(v, *now);
    return now;
  }

  // Memory that may change is turned around anew for every reader.
  bool keeps(Value v) const { return graph_.node(roots_[v].node).def != &op::kVariable; }
  static bool is_same_order(const Shape& s) { return s[1] == 1 || s[2] * s[3] == 1; }

  Result<Value> reshape(Value old, Value from, Ints dims) {
    const Node& node = graph_.node(old.node);
    std::vector<Value> inputs{from};
    return rewriter_.add(op::kReshape, std::move(inputs), {{"shape", std::move(dims)}},
                         node.name + "/reshape", node.site);
  }
  Result<Value> transpose(Value old, Value from, Ints order) {
    const Node& node = graph_.node(old.node);
    std::vector<Value> inputs{from};
    return rewriter_.add(op::kTranspose, std::move(inputs), {{"order", std::move(order)}},
                         node.name + "/transpose", node.site);
  }

  const std::set<std::string, std::less<>>& ops_;
  ValueMap<Value> roots_;
  ValueMap<Value> rows_, last_;  // in the new graph; null: not there (yet)
};

}  // namespace

// `turnable` convolutions and poolings, and norms, biases and elementwise ops between them, work on images
// whose channels are last in memory; values of four dimensions are turned around where other ops read them.
// Run it after gradients and cse, and dead_code after it. Tolerant: sums run in another order.
extern const PassRow kChannelsLast{
    .name = "channels_last",
    .doc = "Keeps images between convolutions with the channels last. After gradients.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions& o) { return ChannelsLast(g, o.turnable).run(); }};

}  // namespace trireme::graph
