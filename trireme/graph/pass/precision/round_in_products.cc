#include "trireme/graph/pass/passes.h"

#include <algorithm>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/forms.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

class Rounder : private Overview {
 public:
  explicit Rounder(const Graph& graph) : Overview(graph), mutations_(graph) {}

  Result<Graph> run() {
    Rewriter rewriter(graph_);
    for (std::int32_t id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (is_spare(id)) continue;
      if (!node.is(op::kMatmul) || !is_spare(node.inputs[1].node)) {
        TR_RETURN_IF_ERROR(rewriter.copy(id).status());
        continue;
      }
      op::Forms rounds = op::forms_of(2, 1);
      rounds.inputs[1].dtype = graph_.type(node.inputs[1]).dtype;
      std::vector<Value> inputs{rewriter.at(node.inputs[0]), rewriter.at(weight_of(node.inputs[1].node))};
      TR_ASSIGN_OR_RETURN(const Value made, rewriter.add_in_place_of(id, *node.def, std::move(inputs),
                                                                     node.attrs, std::move(rounds)));
      rewriter.map({id, 0}, made);
    }
    return rewriter.finish();
  }

 private:
  Value weight_of(std::int32_t cast) const { return graph_.node(cast).inputs[0]; }

  // A cast of a variable that only products read which can round by themselves.
  bool is_spare(std::int32_t id) const {
    const Node& node = graph_.node(id);
    const Value copy{id, 0};
    if (node.def != &op::kCast || !movable(id) || is_output(copy) ||
        graph_.node(weight_of(id).node).def != &op::kVariable || dtype_size(node.outputs[0].dtype) != 2 ||
        graph_.type(weight_of(id)).dtype != DType::kF32 || node.outputs[0].shape.rank() != 2)
      return false;
    const auto& users = readers(copy);
    return !users.empty() && std::all_of(users.begin(), users.end(), [&](std::int32_t user) {
      return can_round(user, copy) && !mutations_.between(weight_of(id), id, user);
    });
  }

  bool can_round(std::int32_t id, Value copy) const {
    const Node& node = graph_.node(id);
    if (!is(id, op::kMatmul) || node.inputs[1] != copy || node.inputs[0] == copy ||
        node.attrs.get_bool("transpose_a"))
      return false;
    const Shape& made = node.outputs[0].shape;
    const std::int64_t columns = made.dim(-1);
    return columns > 0 && made.num_elems() / columns < columns;
  }

  Mutations mutations_;
};

}  // namespace

// A 16-bit product that alone with others like it reads the rounded copy of a variable reads the variable
// and rounds it itself (by its forms), so that nobody keeps the copy from the forward to the backward pass.
// Only products of fewer rows than columns, where the parts of a product read disjoint parts of the variable.
// Run it after absorb_casts. Exact: the same roundings of the same values.
extern const PassRow kRoundInProducts{
    .name = "round_in_products",
    .doc = "Rounds weights within products instead of keeping rounded copies. After gradients.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions&) { return Rounder(g).run(); }};

}  // namespace trireme::graph
