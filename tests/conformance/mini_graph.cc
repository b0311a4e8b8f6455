#include "tests/conformance/mini_graph.h"

namespace trireme::op::testing {

class MiniGradBuilder final : public GradBuilder {
 public:
  MiniGradBuilder(MiniGraph& graph, std::int32_t node, std::vector<Value> grad_outputs)
      : graph_(graph), id_(node), attrs_(this_node().attrs), grad_outputs_(std::move(grad_outputs)) {}

  Value input(int i) override { return this_node().inputs[static_cast<std::size_t>(i)]; }
  Value output(int i) override { return {id_, i}; }
  Value grad_output(int i) override { return grad_outputs_[static_cast<std::size_t>(i)]; }
  bool needs_grad(int i) override { return is_floating(type(input(i)).dtype); }
  const TensorType& type(Value v) override { return graph_.type(v); }
  const Attrs& attrs() override { return attrs_; }
  Value add(const OpDef& def, std::vector<Value> inputs, Attrs attrs) override {
    return *graph_.add(def, inputs, attrs);
  }

 private:
  const MiniGraph::Node& this_node() const { return graph_.nodes_[static_cast<std::size_t>(id_)]; }
  MiniGraph& graph_;
  std::int32_t id_;
  Attrs attrs_;  // a copy: adding nodes moves them
  std::vector<Value> grad_outputs_;
};

Value MiniGraph::constant(Tensor value) {
  nodes_.push_back({nullptr, {}, {}, {std::move(value)}});
  return {static_cast<std::int32_t>(nodes_.size()) - 1, 0};
}

Result<Value> MiniGraph::add(const OpDef& def, const std::vector<Value>& inputs, const Attrs& attrs) {
  std::vector<Tensor> tensors;
  for (const Value v : inputs) tensors.push_back(value(v));
  TR_ASSIGN_OR_RETURN(Attrs complete, complete_attrs(def, attrs));
  TR_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, run_op(def, tensors, complete));
  nodes_.push_back({&def, inputs, std::move(complete), std::move(outputs)});
  return Value{static_cast<std::int32_t>(nodes_.size()) - 1, 0};
}

const Tensor& MiniGraph::value(Value v) const {
  TR_CHECK(!v.is_null());
  return nodes_[static_cast<std::size_t>(v.node)].values[static_cast<std::size_t>(v.index)];
}

Result<Grads> MiniGraph::grad(std::int32_t node, std::vector<Value> grad_outputs) {
  MiniGradBuilder builder(*this, node, std::move(grad_outputs));
  return nodes_[static_cast<std::size_t>(node)].def->grad(builder);
}

}  // namespace trireme::op::testing
