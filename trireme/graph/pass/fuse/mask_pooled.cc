// An element that a window has selected is positive where the window's maximum is, and all others get no
// gradient: relu_grad(places_grad(g), y) = places_grad(relu_grad(g, maxima)) for y that was pooled.
#include "trireme/graph/pass/passes.h"

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/fused/max_pool2d_places.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

class Masker : private RewritingPass {
 public:
  explicit Masker(const Graph& graph) : RewritingPass(graph), mutations_(graph), masked_(graph) {}

  Result<Graph> run() {
    for (std::int32_t id = 0; id < graph_.size(); ++id) TR_RETURN_IF_ERROR(visit(id));
    return rewriter_.finish();
  }

 private:
  // The pooling whose gradient node `id` masks by what was pooled, or -1.
  std::int32_t pool_of(std::int32_t id) const {
    if (!is(id, op::kReluGrad)) return -1;
    const Value dy = graph_.node(id).inputs[0], y = graph_.node(id).inputs[1];
    if (!is(dy.node, op::kMaxPool2dPlacesGrad) || !has_one_reader(dy)) return -1;
    const std::int32_t pool = graph_.node(dy.node).inputs[1].node;
    return is(pool, op::kMaxPool2dPlaces) && graph_.node(pool).inputs[0] == y &&
                   !mutations_.between(y, pool, id)
               ? pool
               : -1;
  }

  Status visit(std::int32_t id) {
    const Node& node = graph_.node(id);
    if (const std::int32_t pool = pool_of(id); pool >= 0) {
      const Node& grad = graph_.node(node.inputs[0].node);
      std::vector<Value> of{rewriter_.at(grad.inputs[0]), rewriter_.at(Value{pool, 0})};
      TR_ASSIGN_OR_RETURN(const Value masked,
                          rewriter_.add(op::kReluGrad, std::move(of), {}, node.name + "/pooled", node.site));
      std::vector<Value> inputs{masked, rewriter_.at(grad.inputs[1])};
      TR_ASSIGN_OR_RETURN(const Value made, rewriter_.add_in_place_of(id, op::kMaxPool2dPlacesGrad,
                                                                      std::move(inputs), grad.attrs));
      rewriter_.map({id, 0}, made);
      masked_[Value{id, 0}] = masked;
      return {};
    }
    if (is(id, op::kBiasGrad) && !masked_[node.inputs[0]].is_null())
      return rewriter_.copy(id, {masked_[node.inputs[0]]}, node.attrs).status();
    return rewriter_.copy(id).status();
  }

  Mutations mutations_;
  ValueMap<Value> masked_;  // pooled gradients in the new graph, by what was made of them
};

}  // namespace

// What max pooling left over decides where the gradient of the relu before it counts: the mask is applied to
// the pooled gradient, so that nobody keeps the larger image, and a bias adds up the pooled gradient as well.
// Run it after keep_places. Tolerant: only sums of biases round elsewhere.
extern const PassRow kMaskPooled{
    .name = "mask_pooled",
    .doc = "Applies the mask of relu to the gradient of what was pooled. After keep_places.",
    .exactness = Exactness::kTolerant,
    .run = [](const Graph& g, const PassOptions&) { return Masker(g).run(); }};

}  // namespace trireme::graph
