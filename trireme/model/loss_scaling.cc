#include "trireme/model/loss_scaling.h"

#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"

namespace trireme::model {

using graph::Value;

Result<ScaledGradients> add_scaled_gradients(graph::Graph& graph, Value loss, Value scale,
                                             std::span<const Value> wrt) {
  if (wrt.empty())
    return error(Code::kInvalid,
                 "[model] loss scaling: got no values to differentiate by, expected at least one");
  TR_ASSIGN_OR_RETURN(const Value scaled, graph.add(op::kMul, {loss, scale}, {}, "scaled_loss"));
  TR_ASSIGN_OR_RETURN(const std::vector<Value> raw, graph::add_gradients(graph, scaled, wrt));
  ScaledGradients result;
  for (const Value g : raw) {
    TR_ASSIGN_OR_RETURN(const Value unscaled, graph.add(op::kDiv, {g, scale}, {}, "unscaled"));
    result.gradients.push_back(unscaled);
  }
  TR_ASSIGN_OR_RETURN(result.finite, graph.add(op::kAllFinite, result.gradients, {}, "finite"));
  return result;
}

}  // namespace trireme::model
