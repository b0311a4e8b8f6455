// What describe.cc and the table of layers share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/model/describe.h"
#include "trireme/model/layers.h"

namespace trireme::model {

// One layer, checked. Every attribute of its row is there.
class LayerSettings {
 public:
  const LayerRow* row = nullptr;
  std::string name;
  std::string where;  // "layer 2 (conv2d): "
  ModelInput input;
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> texts;
  std::vector<LayerSettings> inner;

  std::int64_t integer(std::string_view attr) const { return static_cast<std::int64_t>(number(attr)); }
  double number(std::string_view attr) const { return numbers.find(attr)->second; }
  const std::string& text(std::string_view attr) const { return texts.find(attr)->second; }
};

// One after the other.
graph::Value build_layers(LayerBuilder& l, graph::Value x, std::span<const LayerSettings> layers);

}  // namespace trireme::model
