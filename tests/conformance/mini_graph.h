// A graph that evaluates while it is built, on reference kernels: enough to run gradient functions in tests
// without the graph and exec folders.
#pragma once

#include <vector>

#include "trireme/op/op.h"

namespace trireme::op::testing {

// Infers, allocates poisoned outputs and runs the reference kernel. Host ops and feeds yield phantoms. The
// output of a mutating op is its input 0.
Result<std::vector<Tensor>> run_op(const OpDef& def, const std::vector<Tensor>& inputs, const Attrs& attrs);

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
