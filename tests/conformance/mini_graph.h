// A graph that evaluates while it is built, on reference kernels: enough to run gradient functions in tests
// without the graph and exec folders.
#pragma once

#include <vector>

#include "tests/op/run_op.h"
#include "trireme/op/op.h"

namespace trireme::op::testing {

class MiniGraph {
 public:
  Value constant(Tensor value);
  Result<Value> add(const OpDef& def, const std::vector<Value>& inputs, const Attrs& attrs);
  const Tensor& value(Value v) const;
  const TensorType& type(Value v) const { return value(v).type(); }
  // Gradients of node `node` for its inputs, given the gradients of its outputs.
  Result<Grads> grad(std::int32_t node, std::vector<Value> grad_outputs);

 private:
  friend class MiniGradBuilder;
  struct Node {
    const OpDef* def = nullptr;
    std::vector<Value> inputs;
    Attrs attrs;
    std::vector<Tensor> values;
  };
  std::vector<Node> nodes_;
};

}  // namespace trireme::op::testing
