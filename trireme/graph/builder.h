// Builder: adds nodes one by one. The first failure sticks: later calls return null Values and status()
// tells. Every node remembers the line that built it (Node::site). expr.h writes the same as formulas.
#pragma once

#include <string>
#include <string_view>

#include "trireme/graph/graph.h"

namespace trireme::graph {

class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  const Status& status() const { return status_; }
  const TensorType& type(Value v) const { return graph_.type(v); }

  // Any op of the table; the methods below are shorthands for the common ones.
  Value add_node(const OpDef& def, std::vector<Value> inputs, Attrs attrs = {}, std::string_view name = "",
                 Site site = Site::here());

  Value input(std::string_view name, DType dtype, const Shape& shape, Site site = Site::here());
  // The name is taken below the current scope.
  Value variable(std::string_view name, DType dtype, const Shape& shape, Site site = Site::here());
  Value fill(double value, DType dtype, const Shape& shape, Site site = Site::here());
  Value add(Value a, Value b, Site site = Site::here());
  Value sub(Value a, Value b, Site site = Site::here());
  Value mul(Value a, Value b, Site site = Site::here());
  Value relu(Value x, Site site = Site::here());
  Value sigmoid(Value x, Site site = Site::here());
  Value tanh(Value x, Site site = Site::here());
  Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false,
               Site site = Site::here());
  Value bias_add(Value x, Value bias, Site site = Site::here());  // adds along dimension 1
  Value conv2d(Value x, Value filter, std::int64_t stride = 1, std::int64_t padding = 0,
               Site site = Site::here());
  Value max_pool2d(Value x, std::int64_t window, std::int64_t stride, Site site = Site::here());
  Value reshape(Value x, const Shape& shape, Site site = Site::here());
  Value sum(Value x, Site site = Site::here());
  Value dropout(Value x, Value key, Value step, Value sample_ids, double rate, std::int64_t stream,
                Site site = Site::here());
  Value softmax_cross_entropy(Value logits, Value labels, Value weights, Site site = Site::here());
  Value stop_gradient(Value x, Site site = Site::here());

  void output(std::string name, Value v);

 private:
  Graph& graph_;
  Status status_;
};

}  // namespace trireme::graph
