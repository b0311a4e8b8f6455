#include "trireme/graph/pass/passes.h"

#include <algorithm>
#include <map>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/nn/residual_layer_norm.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// Nodes that become one, which stands where the sum stood.
struct Join {
  std::int32_t sum, shift, norm;
  Value x;  // what the branch is added to
};

class Joiner : private RewritingPass {
 public:
  explicit Joiner(const Graph& graph) : RewritingPass(graph), mutations_(graph) {}

  Result<Graph> run() {
    find();
    for (std::int32_t id = 0; id < graph_.size(); ++id) {
      if (is_part_.contains(id) || rewriter_.moved(id) >= 0) continue;
      const auto at = joins_.find(id);
      TR_RETURN_IF_ERROR(at == joins_.end() ? rewriter_.copy(id).status() : join(at->second));
    }
    return rewriter_.finish();
  }

 private:
  void find() {
    for (std::int32_t sum = 0; sum < graph_.size(); ++sum) {
      if (!is(sum, op::kAdd)) continue;
      const std::int32_t norm = norm_of(sum);
      if (norm < 0) continue;
      const auto& parts = graph_.node(sum).inputs;
      for (const int i : {1, 0}) {
        const Value branch = parts[static_cast<std::size_t>(i)], x = parts[static_cast<std::size_t>(1 - i)];
        if (branch == x || !is_shifted(branch) || graph_.type(x) != graph_.type(branch)) continue;
        joins_.try_emplace(sum, Join{sum, branch.node, norm, x});
        is_part_.insert(branch.node);
        is_part_.insert(norm);
        break;
      }
    }
  }
  // A branch with its bias, of which nobody else reads the sum: rows, so that the bias lies along the last
  // dimension.
  bool is_shifted(Value v) const {
    return is(v.node, op::kBiasAdd) && has_one_reader(v) && graph_.type(v).shape.rank() == 2 &&
           !is_part_.contains(v.node);
  }
  // The layer norm over the last dimension that reads the sum, or the sum in another shape; -1: none.
  std::int32_t norm_of(std::int32_t sum) const {
    const auto among = [&](Value v) -> std::int32_t {
      for (const std::int32_t user : readers(v))
        if (is(user, op::kLayerNorm) && graph_.node(user).inputs[0] == v && !is_part_.contains(user) &&
            graph_.node(user).attrs.get_int("num_axes") == 1 && comes_early(user, sum))
          return user;
      return -1;
    };
    const Value total{sum, 0};
    if (graph_.type(total).shape.rank() != 2) return -1;
    std::int32_t norm = among(total);
    for (const std::int32_t user : readers(total)) {
      const Value seen{user, 0};
      if (norm < 0 && is(user, op::kReshape) && graph_.type(seen).shape.rank() > 0 &&
          graph_.type(seen).shape.dim(-1) == graph_.type(total).shape[1])
        norm = among(seen);
    }
    return norm;
  }
  // Whether scale and bias of the norm can be read where the sum is made.
  bool comes_early(std::int32_t norm, std::int32_t sum) const {
    const auto& in = graph_.node(norm).inputs;
    return std::all_of(in.begin() + 1, in.end(), [&](Value v) {
      const Node& node = graph_.node(v.node);
      return !mutations_.between(v, sum, norm) &&
             (v.node < sum || (node.def->has(op::kFeed) && node.control.empty()));
    });
  }

  Status join(const Join& join) {
    const Node &norm = graph_.node(join.norm), &shift = graph_.node(join.shift);
    for (const Value v : {norm.inputs[1], norm.inputs[2]})
      if (rewriter_.at(v).is_null()) TR_RETURN_IF_ERROR(rewriter_.copy(v.node).status());
    std::vector<Value> inputs{rewriter_.at(join.x), rewriter_.at(shift.inputs[0]),
                              rewriter_.at(shift.inputs[1]), rewriter_.at(norm.inputs[1]),
                              rewriter_.at(norm.inputs[2])};
    TR_ASSIGN_OR_RETURN(const Value made, rewriter_.add_in_place_of(join.norm, op::kResidualLayerNorm,
                                                                    std::move(inputs), norm.attrs));
    rewriter_.map({join.sum, 0}, {made.node, 3});
    for (std::int32_t k = 0; k < 3; ++k) {
      const TensorType& type = norm.outputs[static_cast<std::size_t>(k)];
      Value now{made.node, k};
      if (rewriter_.to().type(now).shape != type.shape) {
        const auto dims = type.shape.dims();
        std::vector<Value> of{now};
        TR_ASSIGN_OR_RETURN(now,
                            rewriter_.add(op::kReshape, std::move(of),
                                          {{"shape", std::vector<std::int64_t>(dims.begin(), dims.end())}},
                                          norm.name + "/reshape", norm.site));
      }
      rewriter_.map({join.norm, k}, now);
    }
    return {};
  }

  Mutations mutations_;
  std::map<std::int32_t, Join> joins_;  // by the sum
  std::set<std::int32_t> is_part_;
};

}  // namespace

// What a branch gives, its bias, the residual stream that they are added to, and the layer norm of the sum
// become one residual_layer_norm. Run it after hoist_reshapes, before absorb_casts. Exact.
extern const PassRow kJoinResiduals{
    .name = "join_residuals",
    .doc = "Adds a branch to its residual where a layer norm reads the sum. After gradients.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions&) { return Joiner(g).run(); }};

}  // namespace trireme::graph
