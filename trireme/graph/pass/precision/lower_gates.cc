#include "trireme/graph/pass/passes.h"

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/forms.h"
#include "trireme/op/ops.h"
#include "trireme/op/sequence/lstm_kept.h"

namespace trireme::graph {
namespace {

constexpr std::int32_t kInputGrads = 3;  // of x, h0 and c0; those of weights and biases follow

class Lowerer : private RewritingPass {
 public:
  Lowerer(const Graph& graph, DType low) : RewritingPass(graph), low_(low) {}

  Result<Graph> run() {
    for (std::int32_t id = 0; id < graph_.size(); ++id) {
      const bool lowers = (is(id, op::kLstmKept) || is(id, op::kLstmKeptGrad)) &&
                          graph_.node(id).outputs[0].dtype == DType::kF32;
      TR_RETURN_IF_ERROR(lowers ? lower(id) : rewriter_.copy(id).status());
    }
    return rewriter_.finish();
  }

 private:
  Result<Value> cast(Value v, DType to, const Node& of, const char* end) {
    std::vector<Value> from{v};
    return rewriter_.add(op::kCast, std::move(from), {{"dtype", to}}, of.name + end, of.site);
  }

  // In 16 bits: what was made so is there.
  Result<Value> lowered(Value v, const Node& of) {
    const Node& made = rewriter_.to().node(v.node);
    if (made.def == &op::kCast && rewriter_.to().type(made.inputs[0]).dtype == low_) return made.inputs[0];
    return cast(v, low_, of, "/low");
  }

  // Puts the node with 16-bit inputs, and with gradients of weights in f32.
  Result<Value> put(std::int32_t id, std::vector<Value> inputs) {
    const Node& node = graph_.node(id);
    if (node.def != &op::kLstmKeptGrad)
      return rewriter_.add_in_place_of(id, *node.def, std::move(inputs), node.attrs);
    op::Forms forms = op::forms_of(inputs.size(), node.outputs.size());
    for (op::Form& form : forms.inputs) form.dtype = DType::kF32;
    std::fill_n(forms.outputs.begin(), kInputGrads, op::Form{.dtype = low_});
    return rewriter_.add_in_place_of(id, *node.def, std::move(inputs), node.attrs, std::move(forms));
  }

  Status lower(std::int32_t id) {
    const Node& node = graph_.node(id);
    std::vector<Value> inputs;
    for (const Value v : rewriter_.at(node.inputs)) {
      TR_ASSIGN_OR_RETURN(const Value low, lowered(v, node));
      inputs.push_back(low);
    }
    TR_ASSIGN_OR_RETURN(const Value made, put(id, std::move(inputs)));
    for (std::int32_t k = 0; k < std::ssize(node.outputs); ++k) {
      Value now{made.node, k};
      if (rewriter_.to().type(now).dtype == low_) {
        TR_ASSIGN_OR_RETURN(now, cast(now, DType::kF32, node, "/f32"));
      }
      rewriter_.map({id, k}, now);
    }
    return {};
  }

  DType low_;
};

}  // namespace

// lstm_kept and lstm_kept_grad on f32 values read, keep and give `low` (bf16 or f16), between casts;
// gradients of weights and biases stay f32. For processors with kernels for it. Run it after keep_gates,
// cse and absorb_casts after it. Tolerant.
extern const PassRow kLowerGates{
    .name = "lower_gates",
    .doc = "Computes lstm and its gradient in 16 bits. After keep_gates.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions& o) { return Lowerer(g, o.dtype).run(); }};

}  // namespace trireme::graph
