// Images that batch norms give and take are rounded to 16 bits where the norm reads a 16-bit image: a cast
// down and a cast up in the place of each. Nothing keeps such an image in f32 then.
#include <algorithm>
#include <optional>
#include <span>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/fused/batch_norm_relu.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// Which operands of a norm are images beside x and dx.
struct Images {
  const OpDef* def;
  std::size_t first_input;  // this and those after it
  std::int32_t output;      // -1: none
};
constexpr Images kNorms[] = {{&op::kBatchNorm, 3, 0},
                             {&op::kBatchNormRelu, 3, 0},
                             {&op::kBatchNormGrad, 4, -1},
                             {&op::kBatchNormReluGrad, 5, -1},
                             {&op::kBatchNormAddReluGrad, 4, 3}};

class Narrower : private RewritingPass {
 public:
  explicit Narrower(const Graph& graph) : RewritingPass(graph) {}

  Result<Graph> run() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) TR_RETURN_IF_ERROR(visit(i));
    return rewriter_.finish();
  }

 private:
  Status visit(std::int32_t id) {
    const Node& node = graph_.node(id);
    const auto* norm = std::find_if(std::begin(kNorms), std::end(kNorms),
                                    [&](const Images& n) { return n.def == node.def; });
    const bool is_norm = norm != std::end(kNorms) && is(id, *norm->def);
    const DType low = is_norm ? narrow_dtype(graph_, node.inputs[0]) : DType::kF32;
    if (low == DType::kF32) return rewriter_.copy(id).status();
    std::vector<Value> inputs = rewriter_.at(node.inputs);
    for (std::size_t k = norm->first_input; k < inputs.size(); ++k) {
      TR_ASSIGN_OR_RETURN(inputs[k], rounded(inputs[k], low, node));
    }
    TR_RETURN_IF_ERROR(rewriter_.copy(id, std::move(inputs), node.attrs).status());
    const Value image{id, std::max(norm->output, 0)};
    if (norm->output < 0 || is_output(image) || only_narrowed(image, low)) return {};
    TR_ASSIGN_OR_RETURN(const Value now, rounded(rewriter_.at(image), low, node));
    rewriter_.map(image, now);
    return {};
  }

  // The 16-bit dtype that a f32 value was cast from; f32 where there is none.
  static DType narrow_dtype(const Graph& graph, Value v) {
    const Node& node = graph.node(v.node);
    if (node.def != &op::kCast || node.outputs[0].dtype != DType::kF32) return DType::kF32;
    const DType from = graph.type(node.inputs[0]).dtype;
    return from == DType::kBF16 || from == DType::kF16 ? from : DType::kF32;
  }
  bool only_narrowed(Value v, DType low) const {
    const auto& users = readers(v);
    return std::all_of(users.begin(), users.end(), [&](std::int32_t user) {
      const Node& node = graph_.node(user);
      return node.def == &op::kCast && node.outputs[0].dtype == low;
    });
  }

  Result<Value> rounded(Value now, DType low, const Node& norm) {
    if (narrow_dtype(rewriter_.to(), now) == low) return now;
    TR_ASSIGN_OR_RETURN(const Value down, cast(now, low, norm));
    return cast(down, DType::kF32, norm);
  }
  Result<Value> cast(Value from, DType to, const Node& norm) {
    std::vector<Value> inputs{from};
    return rewriter_.add(op::kCast, std::move(inputs), {{"dtype", to}},
                         fmt::format("{}/{}", norm.name, dtype_name(to)), norm.site);
  }
};

}  // namespace

// The batch norm of a 16-bit image gives a 16-bit image, and takes its residual and the gradients of both in
// 16 bits, as mixed precision has it in PyTorch; sums and statistics stay f32. The roundings are casts that
// absorb_casts makes part of the norms. Run it after gradients and fuse_norms. Tolerant.
extern const PassRow kNarrowNorms{
    .name = "narrow_norms",
    .doc = "Keeps what batch norms make of 16-bit images in 16 bits. After gradients.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions&) { return Narrower(g).run(); }};

}  // namespace trireme::graph
