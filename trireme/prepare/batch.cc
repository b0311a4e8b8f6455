#include "trireme/prepare/batch.h"

#include "trireme/parallel/mesh.h"
#include "trireme/parallel/shard/shard_graph.h"

namespace trireme::prepare {

using model::ModelTask;

Result<BatchTensors> allocate_batch(Device& device, const model::ModelInput& input, std::int64_t n) {
  std::vector<std::int64_t> dims{n};
  for (const std::int64_t d : input.sample_shape.dims()) dims.push_back(d);
  const bool language = input.task == ModelTask::kLanguage;
  const Shape labels = language ? Shape(dims) : Shape{n};
  BatchTensors b;
  TR_ASSIGN_OR_RETURN(b.x, allocate_zeros(device, {model::input_dtype(input.task), Shape(dims)}));
  TR_ASSIGN_OR_RETURN(b.labels, allocate_zeros(device, {DType::kI32, labels}));
  TR_ASSIGN_OR_RETURN(b.weights, allocate_zeros(device, {DType::kF32, {n}}));
  TR_ASSIGN_OR_RETURN(b.sample_ids, allocate_zeros(device, {DType::kI64, {n}}));
  TR_ASSIGN_OR_RETURN(b.key, allocate_zeros(device, {DType::kI64, Shape{}}));
  TR_ASSIGN_OR_RETURN(b.step, allocate_zeros(device, {DType::kI64, Shape{}}));
  TR_ASSIGN_OR_RETURN(b.loss_scale, allocate_zeros(device, {DType::kF32, Shape{}}));
  return b;
}

Result<std::int64_t> batch_bytes(const model::ModelInput& input, std::int64_t n) {
  TR_ASSIGN_OR_RETURN(const BatchTensors batch, allocate_batch(phantom_device(), input, n));
  std::int64_t bytes = 0;
  for (const Tensor* t : batch.all()) bytes += static_cast<std::int64_t>(t->type().num_bytes());
  return bytes;
}

Status feed_batch(exec::Execution& execution, const graph::Graph& graph, const model::ModelInput& input,
                  const BatchTensors& b) {
  const std::pair<std::string_view, const Tensor*> feeds[] = {
      {model::input_name(input.task), &b.x}, {"labels", &b.labels}, {"weights", &b.weights},
      {"sample_ids", &b.sample_ids},         {"key", &b.key},       {"step", &b.step},
      {"loss_scale", &b.loss_scale}};
  for (const auto& [name, tensor] : feeds)
    if (graph.find_input(name)) TR_RETURN_IF_ERROR(execution.feed(name, *tensor));
  return {};
}

Status feed_tile(exec::Execution& execution, const graph::Graph& graph, int tile) {
  const std::string name = parallel::position_input({parallel::kModelAxis, 1});
  if (!graph.find_input(name)) return {};
  const std::int64_t position[] = {tile};
  return execution.feed(name, Tensor::from<std::int64_t>(position, Shape{}));
}

data::BatchView view_of(const BatchTensors& b, const model::ModelInput& input) {
  data::BatchView view;
  if (b.x.raw() == nullptr) return view;
  if (input.task == ModelTask::kLanguage)
    view.tokens = b.x.values<std::int32_t>();
  else
    view.features = b.x.values<float>();
  if (input.task != ModelTask::kReconstruct) view.labels = b.labels.values<std::int32_t>();
  view.weights = b.weights.values<float>();
  return view;
}

}  // namespace trireme::prepare
