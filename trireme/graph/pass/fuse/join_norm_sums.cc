#include "trireme/graph/pass/passes.h"

#include <algorithm>
#include <map>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/nn/layer_norm_grad_sum.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

// Nodes that become one, which stands where the sum stood.
struct Join {
  std::int32_t norm, sum, copy;
  std::int32_t bias;  // the gradient of a bias that the copy gives, or -1
};

bool is_low(DType d) { return d == DType::kBF16 || d == DType::kF16; }

std::map<std::int32_t, Join> find_joins(const Graph& graph) {
  const Overview over(graph);
  std::map<std::int32_t, Join> joins;  // by the sum
  for (std::int32_t norm = 0; norm < graph.size(); ++norm) {
    const Value dx{norm, 0};
    if (!over.is(norm, op::kLayerNormGrad) || !over.has_one_reader(dx)) continue;
    const std::int32_t sum = over.readers(dx)[0];
    const auto& parts = graph.node(sum).inputs;
    const Value total{sum, 0};
    if (!over.is(sum, op::kAdd) || parts[0] == parts[1] || graph.type(parts[0]) != graph.type(parts[1]))
      continue;
    // Whatever reads the norm's other results comes later than the sum.
    const auto is_early = [&](std::int32_t user) { return user < sum; };
    if (std::any_of(over.readers({norm, 1}).begin(), over.readers({norm, 1}).end(), is_early) ||
        std::any_of(over.readers({norm, 2}).begin(), over.readers({norm, 2}).end(), is_early))
      continue;
    // A cast of the sum, or of it in another shape.
    std::int32_t copy = -1;
    const auto look_at = [&](Value v) {
      for (const std::int32_t user : over.readers(v))
        if (copy < 0 && over.is(user, op::kCast) && is_low(graph.node(user).outputs[0].dtype)) copy = user;
    };
    look_at(total);
    for (const std::int32_t user : over.readers(total))
      if (over.is(user, op::kReshape)) look_at({user, 0});
    if (copy < 0) continue;
    Join join{norm, sum, copy, -1};
    if (graph.node(norm).attrs.get_int("num_axes") == 1)
      for (const std::int32_t wide : over.readers({copy, 0}))
        for (const std::int32_t user : over.readers({wide, 0}))
          if (over.is(wide, op::kCast) && over.is(user, op::kBiasGrad) &&
              graph.type({wide, 0}).shape.rank() == 2 &&
              graph.node(user).outputs[0] == graph.node(norm).outputs[1])
            join.bias = user;
    joins.try_emplace(sum, join);
  }
  return joins;
}

Result<Graph> join_norm_sums(const Graph& graph) {
  const std::map<std::int32_t, Join> joins = find_joins(graph);
  std::vector<bool> is_part(static_cast<std::size_t>(graph.size()), false);
  std::map<std::int32_t, Value> copies;  // in the new graph, by their casts
  for (const auto& [sum, join] : joins) {
    is_part[static_cast<std::size_t>(join.norm)] = true;
    if (join.bias >= 0) is_part[static_cast<std::size_t>(join.bias)] = true;
  }
  Rewriter rewriter(graph);
  const auto add_joined = [&](const Join& join) -> Status {
    const Node& norm = graph.node(join.norm);
    const auto& parts = graph.node(join.sum).inputs;
    std::vector<Value> inputs = rewriter.at(norm.inputs);
    inputs.push_back(rewriter.at(parts[0].node == join.norm ? parts[1] : parts[0]));
    Attrs attrs = norm.attrs;
    attrs.set("copy", graph.node(join.copy).outputs[0].dtype);
    TR_ASSIGN_OR_RETURN(const Value made, rewriter.add_in_place_of(join.sum, op::kLayerNormGradSum,
                                                                   std::move(inputs), std::move(attrs)));
    rewriter.map({join.sum, 0}, {made.node, 0});
    rewriter.map({join.norm, 1}, {made.node, 1});
    rewriter.map({join.norm, 2}, {made.node, 2});
    copies[join.copy] = {made.node, 3};
    if (join.bias >= 0) rewriter.map({join.bias, 0}, {made.node, 4});
    return {};
  };
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    if (is_part[static_cast<std::size_t>(id)]) continue;
    if (const auto at = joins.find(id); at != joins.end()) {
      TR_RETURN_IF_ERROR(add_joined(at->second));
    } else if (const auto copy = copies.find(id); copy != copies.end()) {
      const auto dims = graph.node(id).outputs[0].shape.dims();
      Value now = copy->second;
      if (rewriter.to().type(now).shape != graph.node(id).outputs[0].shape) {
        TR_ASSIGN_OR_RETURN(
            now, rewriter.add_in_place_of(id, op::kReshape, {now},
                                          {{"shape", std::vector<std::int64_t>(dims.begin(), dims.end())}}));
      }
      rewriter.map({id, 0}, now);
    } else {
      TR_RETURN_IF_ERROR(rewriter.copy(id).status());
    }
  }
  return rewriter.finish();
}

}  // namespace

// The gradient of a layer norm, the sum of it and a residual's gradient, the sum's 16-bit copy, and the
// gradient of a bias that is made of the copy, become one layer_norm_grad_sum. Run it after gradients and
// hoist_reshapes, before absorb_casts. Exact.
extern const PassRow kJoinNormSums{
    .name = "join_norm_sums",
    .doc = "Adds the gradient of a residual where a layer norm's is made. After gradients.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions&) { return join_norm_sums(g); }};

}  // namespace trireme::graph
