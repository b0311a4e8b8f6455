// Epilogues: product -> bias_add -> relu, each read by nothing but the next, become one node where the last
// of them stood. The reader of a relu's gradient is fine with that: relu_grad takes the output.
#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

struct Chain {
  std::int32_t product = -1, bias = -1, relu = -1;  // relu: -1 where there is none
  std::int32_t last() const { return relu >= 0 ? relu : bias; }
};

class Epilogues : private Overview {
 public:
  explicit Epilogues(const Graph& graph) : Overview(graph), mutations_(graph) {}

  Result<Graph> run() {
    std::vector<Chain> ends(static_cast<std::size_t>(graph_.size()));
    std::vector<bool> inside(static_cast<std::size_t>(graph_.size()), false);
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      const Chain c = chain_from(i);
      if (c.bias < 0) continue;
      ends[static_cast<std::size_t>(c.last())] = c;
      inside[static_cast<std::size_t>(c.product)] = true;
      inside[static_cast<std::size_t>(c.bias)] = true;
    }
    Rewriter rewriter(graph_);
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      const Chain& c = ends[static_cast<std::size_t>(i)];
      if (c.bias >= 0) {
        TR_RETURN_IF_ERROR(emit(rewriter, c));
      } else if (!inside[static_cast<std::size_t>(i)]) {
        TR_RETURN_IF_ERROR(rewriter.copy(i).status());
      }
    }
    return rewriter.finish();
  }

 private:
  // The only reader of node `id`, if it is movable, of op `def` and reads it as input 0.
  std::int32_t only_reader(std::int32_t id, const OpDef& def) const {
    const Value v{id, 0};
    if (!has_one_reader(v)) return -1;
    const std::int32_t user = readers(v)[0];
    return is(user, def) && graph_.node(user).inputs[0] == v ? user : -1;
  }

  Chain chain_from(std::int32_t id) const {
    const Node& node = graph_.node(id);
    if (!movable(id)) return {};
    if (!node.is(op::kConv2d) && (!node.is(op::kMatmul) || node.outputs[0].shape.rank() != 2)) return {};
    Chain c{.product = id, .bias = only_reader(id, op::kBiasAdd), .relu = -1};
    if (c.bias < 0) return {};
    c.relu = only_reader(c.bias, op::kRelu);
    for (const Value v : node.inputs)
      if (mutations_.between(v, id, c.last())) return {};
    if (mutations_.between(graph_.node(c.bias).inputs[1], c.bias, c.last())) return {};
    return c;
  }

  Status emit(Rewriter& rewriter, const Chain& c) const {
    const Node& product = graph_.node(c.product);
    Attrs attrs = product.attrs;
    attrs.set("relu", c.relu >= 0);
    const OpDef& def = product.def == &op::kConv2d ? op::kConv2dBiasAct : op::kMatmulBiasAct;
    std::vector<Value> inputs = rewriter.at(product.inputs);
    inputs.push_back(rewriter.at(graph_.node(c.bias).inputs[1]));
    TR_ASSIGN_OR_RETURN(const Value v, rewriter.add(def, std::move(inputs), std::move(attrs),
                                                    product.name + "/bias_act", product.site));
    rewriter.map({c.last(), 0}, v);
    return {};
  }

  Mutations mutations_;
};

}  // namespace

// Makes matmul or conv2d, a bias_add that alone reads it, and a relu that alone reads that, one node. Run it
// after gradients and before fuse. Tolerant: its kernels multiply chunk by chunk.
extern const PassRow kFuseEpilogues{
    .name = "fuse_epilogues",
    .doc = "Makes matmul or conv2d, bias_add and relu one node. After gradients.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions&) { return Epilogues(g).run(); }};

}  // namespace trireme::graph
