// A model as a list of layers, as a job file has it:
//   [{"kind": "conv2d", "out": 16, "window": 5, "padding": 2, "activation": "relu"}, {"kind": "max_pool"},
//    {"kind": "classifier"}]
// Layers follow each other; `residual` adds what its own list makes to what it reads. Names of parameters
// start with the layer's `name`, by default its kind and how many of that kind came before in its list, from
// 1: "conv2d1/weight". Errors name the layer by its index from 0: "layer 2", in a residual "layer 2.0".
#pragma once

#include <span>
#include <string>

#include "trireme/base/json.h"
#include "trireme/model/zoo.h"

namespace trireme::model {

struct LayerAttr {
  enum class Type : std::uint8_t { kInt, kNumber, kBool, kText, kLayers };
  const char* name;
  Type type;
  bool required = false;
  double number = 0;      // default of ints, numbers and booleans
  const char* text = "";  // default of texts
  double least = 0, most = 16777216;
};

class LayerSettings;  // what a layer's builder reads

struct LayerRow {
  const char* kind;
  const char* doc;
  std::span<const LayerAttr> attrs;
  graph::Value (*build)(LayerBuilder& layers, graph::Value x, const LayerSettings& settings);
};
std::span<const LayerRow> layer_table();

// A builder for build_graphs. Attributes are checked here, shapes when it is called.
Result<ModelFn> describe_model(const Json& layers, const ModelInput& input);

}  // namespace trireme::model
