// Builder: graphs that read like the maths. The first failure sticks: later calls return null Values and
// status() tells.
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

  Value add_node(const OpDef& def, std::vector<Value> inputs, Attrs attrs = {}, std::string_view name = "");

  Value input(std::string_view name, DType dtype, const Shape& shape);
  Value variable(std::string_view name, DType dtype,
                 const Shape& shape);  // name is taken below the current scope
  Value fill(double value, DType dtype, const Shape& shape);
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value relu(Value x);
  Value sigmoid(Value x);
  Value tanh(Value x);
  Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false);
  Value bias_add(Value x, Value bias);  // adds along dimension 1
  Value conv2d(Value x, Value filter, std::int64_t stride = 1, std::int64_t padding = 0);
  Value max_pool2d(Value x, std::int64_t window, std::int64_t stride);
  Value reshape(Value x, const Shape& shape);
  Value sum(Value x);
  Value dropout(Value x, Value key, Value step, Value sample_ids, double rate, std::int64_t stream);
  Value softmax_cross_entropy(Value logits, Value labels, Value weights);

  void output(std::string name, Value v);

 private:
  Graph& graph_;
  Status status_;
};

}  // namespace trireme::graph
