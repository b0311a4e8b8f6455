// BatchTensors: the memory that feeds one Execution of a model graph.
#pragma once

#include <array>

#include "trireme/data/dataset.h"
#include "trireme/exec/executor.h"
#include "trireme/model/zoo.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::prepare {

struct BatchTensors {
  Tensor x;  // "images" or "tokens"
  Tensor labels, weights, sample_ids, key, step, loss_scale;
  std::array<const Tensor*, 7> all() const {
    return {&x, &labels, &weights, &sample_ids, &key, &step, &loss_scale};
  }
};

Result<BatchTensors> allocate_batch(Device& device, const model::ModelInput& input, std::int64_t n);
// What that comes to. Nothing is allocated.
Result<std::int64_t> batch_bytes(const model::ModelInput& input, std::int64_t n);

// Feeds what the graph asks for: a model without dropout has no key.
Status feed_batch(exec::Execution& execution, const graph::Graph& graph, const model::ModelInput& input,
                  const BatchTensors& batch);

// A graph that is cut along the model axis is told its position, once.
Status feed_tile(exec::Execution& execution, const graph::Graph& graph, int tile);

// Where samples go.
data::BatchView view_of(const BatchTensors& batch, const model::ModelInput& input);

}  // namespace trireme::prepare
