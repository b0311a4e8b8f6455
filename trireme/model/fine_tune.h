// Fine-tuning: parts of a model that stay as they are, and parts that start anew.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/model/zoo.h"

namespace trireme::model {

// Parameters that are one of `layers` ("fc1/bias") or below one ("conv1", "stage1_0") are trained no more:
// they move to `frozen`, their gradients go, and so does what only these needed. kNotFound names a layer
// without parameters.
Result<ModelGraphs> freeze(ModelGraphs model, std::span<const std::string> layers);

// Parameters that are used before the first one of `layer`: those that a checkpoint gives when a model is cut
// there, while the rest starts anew. kNotFound lists the layers.
Result<std::vector<Parameter>> parameters_before(const ModelGraphs& model, std::string_view layer);

// The evaluation graph up to the last node of `layer`, whose value is the output "features".
Result<graph::Graph> cut_at(const graph::Graph& eval, std::string_view layer);

}  // namespace trireme::model
