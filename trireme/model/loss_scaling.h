// Loss scaling: keeps gradients of 16-bit products out of the range where they round to zero (Micikevicius et
// al., "Mixed precision training", ICLR 2018). The loss is multiplied by a scale before differentiation and
// the gradients, f32 again at the master weights, are divided by it. A step whose gradients are not finite
// must not be applied: fetch `finite` first, run the updates only when it is true, and run the op
// update_loss_scale either way.
#pragma once

#include <span>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme::model {

struct ScaledGradients {
  std::vector<graph::Value> gradients;  // of the unscaled loss, one per `wrt`
  graph::Value finite;                  // bool scalar: no gradient holds an infinity or NaN
};

// `scale`: an f32 scalar, usually a variable. `loss`: an f32 scalar.
Result<ScaledGradients> add_scaled_gradients(graph::Graph& graph, graph::Value loss, graph::Value scale,
                                             std::span<const graph::Value> wrt);

}  // namespace trireme::model
