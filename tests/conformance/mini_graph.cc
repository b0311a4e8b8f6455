#include "tests/conformance/mini_graph.h"

#include <map>

#include "trireme/op/ops.h"

namespace trireme::op::testing {

class MiniGradBuilder final : public GradBuilder {
 public:
  MiniGradBuilder(MiniGraph& graph, std::int32_t node, std::vector<Value> grad_outputs)
      : graph_(graph), id_(node), attrs_(this_node().attrs), grad_outputs_(std::move(grad_outputs)) {}

  int num_inputs() override { return static_cast<int>(this_node().inputs.size()); }
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

int MiniGraph::num_outputs(std::int32_t node) const {
  return static_cast<int>(nodes_[static_cast<std::size_t>(node)].values.size());
}

Result<std::vector<Value>> MiniGraph::backward(const std::vector<Value>& ys,
                                               const std::vector<Value>& grad_ys,
                                               const std::vector<Value>& wrt) {
  std::map<std::pair<std::int32_t, std::int32_t>, Value> sums;
  const auto accumulate = [&](Value v, Value g) {
    Value& sum = sums[{v.node, v.index}];
    sum = sum.is_null() ? g : *add(kAdd, {sum, g}, {});
  };
  for (std::size_t i = 0; i < ys.size(); ++i) accumulate(ys[i], grad_ys[i]);
  for (auto id = static_cast<std::int32_t>(nodes_.size()) - 1; id >= 0; --id) {
    if (nodes_[static_cast<std::size_t>(id)].def == nullptr) continue;
    std::vector<Value> grad_outputs;
    bool any = false;
    for (int k = 0; k < num_outputs(id); ++k) {
      const auto it = sums.find({id, k});
      grad_outputs.push_back(it == sums.end() ? Value{} : it->second);
      any = any || !grad_outputs.back().is_null();
    }
    if (!any) continue;
    const OpDef& def = *nodes_[static_cast<std::size_t>(id)].def;
    const std::vector<Value> inputs = nodes_[static_cast<std::size_t>(id)].inputs;
    if (def.grad == nullptr) return error(Code::kInvalid, "op {} has no gradient", def.name);
    TR_ASSIGN_OR_RETURN(const Grads grads, grad(id, std::move(grad_outputs)));
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!grads[k].is_null()) accumulate(inputs[k], grads[k]);
    }
  }
  std::vector<Value> result;
  for (const Value v : wrt) {
    const auto it = sums.find({v.node, v.index});
    result.push_back(it == sums.end() ? Value{} : it->second);
  }
  return result;
}

}  // namespace trireme::op::testing
