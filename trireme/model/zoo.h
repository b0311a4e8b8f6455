// Models by name: builders of training and evaluation graphs for one logical shard.
//
// Inputs of both graphs, by task (those a model does not use are absent):
//   classify     images f32[n, ...], labels i32[n]
//   language     tokens i32[n, t], labels i32[n, t] (the token that follows each)
//   reconstruct  images f32[n, ...]
// and weights f32[n], sample_ids i64[n], key i64, step i64.
// Outputs: "loss" (scalar: the weighted sum of sample losses; of a text: the mean over its tokens), "correct"
// (scalar: how many samples with weight > 0 are right; of a text: the share of right tokens; 0 for
// reconstruct) and for training "grad:<parameter>" for every parameter and "stat:<name>" for every statistic.
// Evaluation graphs also give "logits": f32[n, classes], f32[n * t, vocabulary] or the reconstruction.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/option_spec.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/graph.h"
#include "trireme/model/parameter.h"

namespace trireme::model {

class LayerBuilder;

enum class ModelTask : std::uint8_t { kClassify, kLanguage, kReconstruct };

struct ModelInput {
  Shape sample_shape;    // [1, 28, 28]; of a text [t]
  int num_classes = 10;  // of a text: the vocabulary
  ModelTask task = ModelTask::kClassify;
};
// "images", or "tokens" for texts.
std::string_view input_name(ModelTask task);
DType input_dtype(ModelTask task);

// A running statistic of batch normalisation: a variable of the evaluation graph, not of the training graph,
// whose output "stat:<name>" is this shard's value times the sum of its weights. The trainer adds these over
// the logical shards along the gradients' tree (weights of a step add up to 1, so the sum is the mean over
// samples) and after the step sets running = (1 - momentum) running + momentum sum: statistics_update().
struct Statistic {
  std::string name;
  TensorType type;
  double initial = 0;     // means 0, variances 1
  double momentum = 0.1;  // weight of the new value
};

struct ModelGraphs {
  graph::Graph train, eval;
  std::vector<Parameter> parameters;  // in the order of their use in the forward pass
  std::vector<Statistic> statistics;  // in the order of building
  std::vector<Parameter> frozen;      // variables of both graphs without a gradient: freeze()
};

// ---- Options of a model: numbers by name, whatever the type of their default.
class ModelOptions {
 public:
  double get(std::string_view name) const;  // invariant: the row has it
  std::int64_t get_int(std::string_view name) const;
  std::vector<std::pair<std::string, double>> items;
};

struct ZooRow {
  const char* name;
  const char* doc;
  // Adds the layers between the input and the logits (the reconstruction).
  graph::Value (*build)(LayerBuilder& layers, graph::Value x, const ModelInput& input,
                        const ModelOptions& options);
  ModelInput (*input)();  // what the published model reads
  std::span<const OptionSpec> options = {};
};
std::span<const ZooRow> zoo();
// kNotFound lists the names that exist.
Result<const ZooRow*> find_model(std::string_view name);

// Every option of the row: those not given have their defaults. kInvalid names one that the row does not
// have.
Result<ModelOptions> complete_options(const ZooRow& row, const ModelOptions& given);

struct GraphOptions {
  DType products = DType::kF32;  // kBF16, kF16: of matmul, convolutions, attention; the rest stays f32
  // Gradients are those of the loss times the input "loss_scale" (f32), divided by it again: for f16.
  bool scale_loss = false;
};

// Graphs of any builder of layers, called once per graph, for shards of `shard_batch` samples.
using ModelFn = std::function<graph::Value(LayerBuilder& layers, graph::Value x)>;
Result<ModelGraphs> build_graphs(const ModelFn& build, const ModelInput& input, std::int64_t shard_batch,
                                 const GraphOptions& options = {});

// Graphs of model `name`; options that are not given have their defaults, unknown ones are refused.
Result<ModelGraphs> build_model(std::string_view name, const ModelInput& input, std::int64_t shard_batch,
                                const ModelOptions& options = {}, const GraphOptions& graph_options = {});

// Sets the running statistics: inputs and variables of a Statistic's name ("stat:<name>", "<name>"), outputs
// "updated:<name>".
Result<graph::Graph> statistics_update(std::span<const Statistic> statistics);

}  // namespace trireme::model
