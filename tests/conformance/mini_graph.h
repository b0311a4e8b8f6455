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
  int num_outputs(std::int32_t node) const;
  // Gradients of node `node` for its inputs, given the gradients of its outputs (null: none).
  Result<Grads> grad(std::int32_t node, std::vector<Value> grad_outputs);
  // Gradients of sum_i <ys[i], grad_ys[i]> with respect to `wrt`, through every node; null where there is
  // none.
  Result<std::vector<Value>> backward(const std::vector<Value>& ys, const std::vector<Value>& grad_ys,
                                      const std::vector<Value>& wrt);

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
