#include "trireme/graph/pass/passes.h"

#include <algorithm>
#include <map>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/nn/softmax_cross_entropy_step.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// Nodes of one loss, by what they give; -1: there is none.
struct Loss {
  std::int32_t losses = -1, correct = -1, grad = -1;
  std::int32_t first() const { return correct < 0 ? losses : std::min(losses, correct); }
};

class Joiner : private RewritingPass {
 public:
  explicit Joiner(const Graph& graph)
      : RewritingPass(graph),
        loss_of_(static_cast<std::size_t>(graph.size()), -1),
        done_(static_cast<std::size_t>(graph.size()), false) {
    find();
  }

  Result<Graph> run() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) TR_RETURN_IF_ERROR(visit(i));
    return rewriter_.finish();
  }

 private:
  void find() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      if (!is(i, op::kSoftmaxCrossEntropyGrad)) continue;
      Loss loss{.grad = i};
      const auto of = std::span(graph_.node(i).inputs).first(3);
      for (const std::int32_t user : readers(of[0])) {
        const Node& node = graph_.node(user);
        if (!movable(user) || loss_of_[static_cast<std::size_t>(user)] >= 0 || node.inputs.size() != 3 ||
            !std::equal(of.begin(), of.end(), node.inputs.begin()))
          continue;
        if (node.is(op::kSoftmaxCrossEntropy) && loss.losses < 0) loss.losses = user;
        if (node.is(op::kCorrect) && loss.correct < 0) loss.correct = user;
      }
      if (loss.losses < 0 || loss.grad < loss.first() || !comes_early(graph_.node(i).inputs[3], loss.first()))
        continue;
      for (const std::int32_t member : {loss.losses, loss.correct, loss.grad})
        if (member >= 0)
          loss_of_[static_cast<std::size_t>(member)] = static_cast<std::int32_t>(found_.size());
      found_.push_back(loss);
    }
  }

  // Whether v can be computed before node `first`: from what is there, by nodes that may move.
  bool comes_early(Value v, std::int32_t first) const {
    if (v.node < first) return true;
    const Node& node = graph_.node(v.node);
    if (node.def->has(op::kFeed)) return node.control.empty();
    return movable(v.node) && loss_of_[static_cast<std::size_t>(v.node)] < 0 &&
           node.def != &op::kSoftmaxCrossEntropy && node.def != &op::kCorrect &&
           std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](Value in) { return comes_early(in, first); });
  }

  Status visit(std::int32_t id) {
    if (done_[static_cast<std::size_t>(id)]) return {};
    done_[static_cast<std::size_t>(id)] = true;
    const std::int32_t loss = loss_of_[static_cast<std::size_t>(id)];
    if (loss >= 0) return join(found_[static_cast<std::size_t>(loss)]);
    return rewriter_.copy(id).status();
  }

  Status visit_with_inputs(Value v) {
    if (done_[static_cast<std::size_t>(v.node)]) return {};
    for (const Value in : graph_.node(v.node).inputs) TR_RETURN_IF_ERROR(visit_with_inputs(in));
    return visit(v.node);
  }

  Status join(const Loss& loss) {
    for (const std::int32_t member : {loss.losses, loss.correct, loss.grad})
      if (member >= 0) done_[static_cast<std::size_t>(member)] = true;
    const std::vector<Value>& inputs = graph_.node(loss.grad).inputs;
    TR_RETURN_IF_ERROR(visit_with_inputs(inputs[3]));
    TR_ASSIGN_OR_RETURN(const Value made, rewriter_.add_in_place_of(loss.losses, op::kSoftmaxCrossEntropyStep,
                                                                    rewriter_.at(inputs), {}));
    rewriter_.map({loss.grad, 0}, {made.node, 0});
    rewriter_.map({loss.losses, 0}, {made.node, 1});
    if (loss.correct >= 0) rewriter_.map({loss.correct, 0}, {made.node, 2});
    return {};
  }

  std::vector<Loss> found_;
  std::vector<std::int32_t> loss_of_;  // by node; -1: none
  std::vector<bool> done_;
};

}  // namespace

// softmax_cross_entropy, its gradient and `correct` of the same logits become one softmax_cross_entropy_step,
// which reads the logits once and may write the gradient in their place. Only where the gradient of the
// losses does not depend on the losses. Run it after gradients and cse. Exact.
extern const PassRow kJoinLosses{
    .name = "join_losses",
    .doc = "Reads the logits of a loss once for all that is made of them. After gradients.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions&) { return Joiner(g).run(); }};

}  // namespace trireme::graph
