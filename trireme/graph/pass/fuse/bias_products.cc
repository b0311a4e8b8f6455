#include "trireme/graph/pass/passes.h"

#include <algorithm>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/nn/softmax_cross_entropy_step.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

class BiasProducts : private RewritingPass {
 public:
  explicit BiasProducts(const Graph& graph) : RewritingPass(graph) {}

  Result<Graph> run() {
    for (std::int32_t id = 0; id < graph_.size(); ++id) {
      const std::int32_t product = product_of(id);
      TR_RETURN_IF_ERROR(product < 0 ? rewriter_.copy(id).status() : join(id, product));
    }
    return rewriter_.finish();  // the bare products are dead code
  }

 private:
  // The product that a bias is added to by node `id`, or -1.
  std::int32_t product_of(std::int32_t id) const {
    if (!is(id, op::kBiasAdd)) return -1;
    const Value wide = graph_.node(id).inputs[0];
    if (!is(wide.node, op::kCast) || graph_.type(wide).dtype != DType::kF32 || !has_one_reader(wide))
      return -1;
    const Value low = graph_.node(wide.node).inputs[0];
    const Node& product = graph_.node(low.node);
    if (!is(low.node, op::kMatmul) || dtype_size(graph_.type(low).dtype) != 2 || !has_one_reader(low) ||
        graph_.type(product.inputs[0]).shape.rank() != 2 || graph_.type(product.inputs[1]).shape.rank() != 2)
      return -1;
    return reads_low({id, 0}, graph_.type(low).dtype) ? low.node : -1;
  }
  bool reads_low(Value v, DType low) const {
    return !is_output(v) && !readers(v).empty() &&
           std::all_of(readers(v).begin(), readers(v).end(), [&](std::int32_t user) {
             if (is(user, op::kCast)) return graph_.node(user).outputs[0].dtype == low;
             if (is(user, op::kReshape)) return reads_low({user, 0}, low);
             return is(user, op::kSoftmaxCrossEntropyStep) && graph_.node(user).inputs[0] == v;
           });
  }

  Status join(std::int32_t id, std::int32_t product) {
    const Node& node = graph_.node(product);
    return rewriter_.put_biased(id, op::kMatmulBiasAct, rewriter_.at(node.inputs),
                                rewriter_.at(graph_.node(id).inputs[1]), node.outputs[0].dtype, node.attrs);
  }
};

}  // namespace

// A 16-bit product plus a bias that is only read in the same 16 bits, or as the logits of a loss, becomes one
// matmul_bias_act: the sum is rounded once, and no pass over memory adds the bias. Run it after gradients and
// join_losses, and absorb_casts after it. Tolerant: the bias is rounded to 16 bits.
extern const PassRow kBiasProducts{
    .name = "bias_products",
    .doc = "Adds biases within products where the sum is read in 16 bits. After gradients.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions&) { return BiasProducts(g).run(); }};

}  // namespace trireme::graph
