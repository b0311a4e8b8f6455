// Layers: small builders that make parameters and add nodes under a name.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/graph/builder.h"
#include "trireme/model/zoo.h"

namespace trireme::model {

// Not thread-safe. Parameters are collected in the order of use.
class LayerBuilder {
 public:
  LayerBuilder(graph::Builder& b, bool training) : b_(b), training_(training) {}

  graph::Builder& graph() { return b_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  // y = x w^T + b, w [out, in]; x is flattened to [n, in].
  graph::Value dense(std::string_view name, graph::Value x, std::int64_t out);
  graph::Value conv2d(std::string_view name, graph::Value x, std::int64_t out_channels, std::int64_t window,
                      std::int64_t stride, std::int64_t padding);
  // Identity in evaluation graphs. Every dropout layer of a model has its own stream, numbered in order of
  // building.
  graph::Value dropout(std::string_view name, graph::Value x, double rate);
  graph::Value flatten(graph::Value x);

 private:
  graph::Value parameter(std::string_view name, const Shape& shape, double bound);
  graph::Value scalar_input(std::string_view name);

  graph::Builder& b_;
  bool training_;
  std::int64_t next_stream_ = 0;
  std::vector<Parameter> parameters_;
};

}  // namespace trireme::model
