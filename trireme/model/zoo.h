// Models by name: builders of training and evaluation graphs for one logical shard.
//
// Inputs of both graphs: images f32[n, ...], labels i32[n], weights f32[n], sample_ids i64[n], key i64, step
// i64 (those a model does not use are absent). Outputs: "loss" (scalar: the weighted sum of sample losses),
// "correct" (scalar: how many samples with weight > 0 are right), and for training "grad:<parameter>" for
// every parameter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/graph/builder.h"
#include "trireme/graph/graph.h"

namespace trireme::model {

struct ModelInput {
  Shape sample_shape;  // [1, 28, 28]
  int num_classes = 10;
};

// A parameter as built: its path name and how it starts.
struct Parameter {
  std::string name;
  TensorType type;
  double bound = 0;  // uniform in [-bound, bound); 0: zeros
};

struct ModelGraphs {
  graph::Graph train, eval;
  std::vector<Parameter> parameters;  // in the order of their use in the forward pass
};

struct ZooRow {
  const char* name;
  const char* doc;
  // Adds the layers between `images` and the logits.
  graph::Value (*build)(class LayerBuilder& layers, graph::Value images, int num_classes);
};
std::span<const ZooRow> zoo();

// Graphs of model `name` for shards of `shard_batch` samples. kNotFound lists the names that exist.
Result<ModelGraphs> build_model(std::string_view name, const ModelInput& input, std::int64_t shard_batch);

// Initial values of a parameter: a function of (seed, parameter name, element index) alone.
void initialise(const Parameter& parameter, std::uint64_t seed, std::span<float> values);

}  // namespace trireme::model
