#include "trireme/graph/pass/passes.h"

#include <algorithm>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

constexpr std::int64_t kLeastChannels = 8;

struct Chain {
  std::int32_t convolution = -1, bias = -1;
  bool relu = false;
};

class BiasConvolutions : private RewritingPass {
 public:
  explicit BiasConvolutions(const Graph& graph) : RewritingPass(graph) {}

  Result<Graph> run() {
    for (std::int32_t id = 0; id < graph_.size(); ++id) {
      const Chain chain = chain_to(id);
      TR_RETURN_IF_ERROR(chain.bias < 0 ? rewriter_.copy(id).status() : join(id, chain));
    }
    return rewriter_.finish();  // the bare convolutions are dead code
  }

 private:
  // What ends in node `id`, whose result is read in 16 bits only.
  Chain chain_to(std::int32_t id) const {
    Chain c{.relu = is(id, op::kRelu)};
    c.bias = c.relu ? graph_.node(id).inputs[0].node : id;
    if (!is(c.bias, op::kBiasAdd) || (c.relu && !has_one_reader({c.bias, 0}))) return {};
    const Value wide = graph_.node(c.bias).inputs[0];
    if (!is(wide.node, op::kCast) || graph_.type(wide).dtype != DType::kF32 || !has_one_reader(wide))
      return {};
    const Value low = graph_.node(wide.node).inputs[0];
    if (!is(low.node, op::kConv2d) || dtype_size(graph_.type(low).dtype) != 2 || !has_one_reader(low))
      return {};
    c.convolution = low.node;
    const Shape& image = graph_.type(graph_.node(low.node).inputs[0]).shape;
    return image[1] >= kLeastChannels && reads_low({id, 0}, graph_.type(low).dtype) ? c : Chain{};
  }
  bool reads_low(Value v, DType low) const {
    return !is_output(v) && !readers(v).empty() &&
           std::all_of(readers(v).begin(), readers(v).end(), [&](std::int32_t user) {
             return is(user, op::kCast) && graph_.node(user).outputs[0].dtype == low;
           });
  }

  Status join(std::int32_t id, const Chain& chain) {
    const Node& node = graph_.node(chain.convolution);
    Attrs attrs = node.attrs;
    attrs.set("relu", chain.relu);
    return rewriter_.put_biased(id, op::kConv2dBiasAct, rewriter_.at(node.inputs),
                                rewriter_.at(graph_.node(chain.bias).inputs[1]), node.outputs[0].dtype,
                                std::move(attrs));
  }
};

}  // namespace

// A 16-bit convolution, a bias and perhaps relu whose result is only read in the same 16 bits become one
// conv2d_bias_act: the sum is rounded once, and no pass over memory adds the bias. Thin images (fewer than 8
// channels) are left alone. Run it after gradients and narrow_copies, and absorb_casts after it. Tolerant:
// the bias is rounded to 16 bits.
extern const PassRow kBiasConvolutions{
    .name = "bias_convolutions",
    .doc = "Adds biases and relu within convolutions where the sum is read in 16 bits. After gradients.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions&) { return BiasConvolutions(g).run(); }};

}  // namespace trireme::graph
