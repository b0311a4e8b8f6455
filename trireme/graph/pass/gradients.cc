// Reverse accumulation. For every node on a path from `wrt` to `loss`, last to first, the op's gradient
// function turns the gradients of its outputs into gradients of its inputs. A Value's gradient is the sum
// over its uses, ordered by (node, input), and is complete when its producer is reached, because users have
// larger ids.
#include <algorithm>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/storage.h"
#include "trireme/op/forms.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

struct Contribution {
  std::int32_t user;  // node and
  std::int32_t input;
  Value grad;
};

class NodeGradBuilder final : public op::GradBuilder {
 public:
  NodeGradBuilder(Graph& graph, std::int32_t node, std::vector<Value> grad_outputs, std::vector<bool> needs)
      : graph_(graph),
        node_(node),
        inputs_(graph.node(node).inputs),
        attrs_(graph.node(node).attrs),
        site_(graph.node(node).site),
        grad_outputs_(std::move(grad_outputs)),
        needs_(std::move(needs)) {}

  int num_inputs() override { return static_cast<int>(inputs_.size()); }
  Value input(int i) override { return inputs_[static_cast<std::size_t>(i)]; }
  Value output(int i) override { return {node_, i}; }
  Value grad_output(int i) override { return grad_outputs_[static_cast<std::size_t>(i)]; }
  bool needs_grad(int input) override { return needs_[static_cast<std::size_t>(input)]; }
  const TensorType& type(Value v) override { return graph_.type(v); }
  const Attrs& attrs() override { return attrs_; }
  Value add(const OpDef& def, std::vector<Value> inputs, Attrs attrs) override {
    Result<Value> v = graph_.add(def, std::move(inputs), std::move(attrs), "", site_);
    TR_CHECK(v.ok(), "gradient of '{}': {}", graph_.node(node_).name, v.status().to_string());
    return *v;
  }

 private:
  Graph& graph_;
  std::int32_t node_;
  // Copies: nodes move when the graph grows.
  std::vector<Value> inputs_;
  Attrs attrs_;
  std::string site_;  // gradients were built where their op was
  std::vector<Value> grad_outputs_;
  std::vector<bool> needs_;
};

class Accumulator {
 public:
  Accumulator(Graph& graph, std::span<const Value> wrt)
      : graph_(graph), parts_(graph), total_(graph), depends_(graph, false), forward_size_(graph.size()) {
    for (const Value v : wrt) depends_[v] = true;
    for (std::int32_t i = 0; i < forward_size_; ++i) spread(i);
  }

  // `grad_ys` as in add_gradients: seeds come after the uses inside the graph, in their own order.
  Status run(std::span<const Value> ys, std::span<const Value> grad_ys) {
    std::int32_t last = -1;
    for (std::size_t i = 0; i < ys.size(); ++i) {
      if (!depends_[ys[i]]) continue;
      Value seed = grad_ys[i];
      if (seed.is_null()) {
        TR_ASSIGN_OR_RETURN(seed, fill(1, ys[i]));
      }
      parts_[ys[i]].push_back({forward_size_, static_cast<std::int32_t>(i), seed});
      last = std::max(last, ys[i].node);
    }
    for (std::int32_t i = last; i >= 0; --i) {
      graph_.push_scope(fmt::format("grad/{}", graph_.node(i).name));
      Status s = visit(i);
      graph_.pop_scope();
      TR_RETURN_IF_ERROR(s);
    }
    return {};
  }

  // The finished gradient, or zeros.
  Result<Value> gradient(Value v) {
    if (!total_[v].is_null()) return total_[v];
    return fill(0, v);
  }

 private:
  // Only floating values carry a gradient: a path through integers is no path.
  void spread(std::int32_t id) {
    const Node& node = graph_.node(id);
    const bool any =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](Value v) { return depends_[v]; });
    for (std::int32_t k = 0; any && k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      if (is_floating(node.outputs[static_cast<std::size_t>(k)].dtype)) depends_[Value{id, k}] = true;
  }

  Result<Value> fill(double value, Value like) {
    const TensorType type = graph_.type(like);
    std::vector<std::int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
    return graph_.add(op::kFill, {}, {{"value", value}, {"dtype", type.dtype}, {"shape", std::move(dims)}},
                      value == 0 ? "grad/zeros" : "grad/ones");
  }

  Status finish(Value v) {
    std::vector<Contribution>& parts = parts_[v];
    if (parts.empty()) return {};
    std::sort(parts.begin(), parts.end(), [](const Contribution& a, const Contribution& b) {
      return a.user != b.user ? a.user < b.user : a.input < b.input;
    });
    Value sum = parts[0].grad;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      TR_ASSIGN_OR_RETURN(sum, graph_.add(op::kAdd, {sum, parts[i].grad}));
    }
    total_[v] = sum;
    return {};
  }

  Status visit(std::int32_t id) {
    const auto num_outputs = static_cast<std::int32_t>(graph_.node(id).outputs.size());
    std::vector<Value> grad_outputs;
    bool any = false;
    for (std::int32_t k = 0; k < num_outputs; ++k) {
      TR_RETURN_IF_ERROR(finish({id, k}));
      grad_outputs.push_back(total_[Value{id, k}]);
      any = any || !grad_outputs.back().is_null();
    }
    const std::vector<Value> inputs = graph_.node(id).inputs;
    std::vector<bool> needs;
    for (const Value v : inputs) needs.push_back(depends_[v]);
    if (!any || std::find(needs.begin(), needs.end(), true) == needs.end()) return {};

    const OpDef& def = *graph_.node(id).def;
    if (def.grad == nullptr || !graph_.node(id).forms.is_plain())
      return error(
          Code::kInvalid,
          "[graph] op '{}' has no gradient, but node '{}' is on the path to the loss; leave the value out of "
          "the loss or use another op",
          op::formed_name(def, graph_.node(id).forms), graph_.node(id).name);
    NodeGradBuilder builder(graph_, id, std::move(grad_outputs), needs);
    Result<op::Grads> grads = def.grad(builder);
    if (!grads.ok())
      return grads.status().with_prefix(
          fmt::format("[graph] gradient of '{}' ({}): ", graph_.node(id).name, def.name));
    return collect(id, inputs, needs, *grads);
  }

  Status collect(std::int32_t id, const std::vector<Value>& inputs, const std::vector<bool>& needs,
                 const op::Grads& grads) {
    TR_CHECK(grads.size() == inputs.size(), "gradient of op '{}' gives {} values for {} inputs",
             graph_.node(id).def->name, grads.size(), inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!needs[i] || grads[i].is_null()) continue;
      TR_CHECK(graph_.type(grads[i]) == graph_.type(inputs[i]),
               "gradient of op '{}' for input {} is {}, expected {}", graph_.node(id).def->name, i,
               graph_.type(grads[i]).to_string(), graph_.type(inputs[i]).to_string());
      parts_[inputs[i]].push_back({id, static_cast<std::int32_t>(i), grads[i]});
    }
    return {};
  }

  Graph& graph_;
  // Over the values that exist at the start; the nodes added here never get gradients themselves.
  ValueMap<std::vector<Contribution>> parts_;
  ValueMap<Value> total_;
  ValueMap<bool> depends_;
  std::int32_t forward_size_;
};

}  // namespace

Result<std::vector<Value>> add_gradients(Graph& graph, std::span<const Value> ys,
                                         std::span<const Value> grad_ys, std::span<const Value> wrt) {
  const auto exists = [&](Value v) {
    return v.node >= 0 && v.node < graph.size() && v.index >= 0 &&
           v.index < static_cast<std::int32_t>(graph.node(v.node).outputs.size());
  };
  if (!std::all_of(ys.begin(), ys.end(), exists) || !std::all_of(wrt.begin(), wrt.end(), exists))
    return error(Code::kInvalid,
                 "[graph] gradients: the loss or a value to differentiate by is not in the graph");
  if (ys.size() != grad_ys.size())
    return error(Code::kInvalid, "[graph] gradients: got {} output gradients, expected {}, one per output",
                 grad_ys.size(), ys.size());
  for (std::size_t i = 0; i < ys.size(); ++i) {
    if (!is_floating(graph.type(ys[i]).dtype))
      return error(Code::kInvalid, "[graph] gradients: '{}' is {}, expected a floating type",
                   graph.node(ys[i].node).name, graph.type(ys[i]).to_string());
    if (grad_ys[i].is_null()) continue;
    if (!exists(grad_ys[i]) || graph.type(grad_ys[i]) != graph.type(ys[i]))
      return error(Code::kInvalid, "[graph] gradients: output gradient {} is {}, expected {} as '{}'", i,
                   exists(grad_ys[i]) ? graph.type(grad_ys[i]).to_string() : "not in the graph",
                   graph.type(ys[i]).to_string(), graph.node(ys[i].node).name);
  }
  for (const Value v : wrt)
    if (!is_floating(graph.type(v).dtype))
      return error(Code::kInvalid, "[graph] gradients: '{}' is {}, expected a floating type",
                   graph.node(v.node).name, graph.type(v).to_string());

  Accumulator accumulator(graph, wrt);
  TR_RETURN_IF_ERROR(accumulator.run(ys, grad_ys));
  std::vector<Value> gradients;
  for (const Value v : wrt) {
    TR_ASSIGN_OR_RETURN(const Value g, accumulator.gradient(v));
    gradients.push_back(g);
  }
  return gradients;
}

Result<std::vector<Value>> add_gradients(Graph& graph, Value loss, std::span<const Value> wrt) {
  const bool exists = loss.node >= 0 && loss.node < graph.size() && loss.index >= 0 &&
                      loss.index < static_cast<std::int32_t>(graph.node(loss.node).outputs.size());
  if (exists && (graph.type(loss).shape.num_elems() != 1 || !is_floating(graph.type(loss).dtype)))
    return error(Code::kInvalid,
                 "[graph] gradients: the loss '{}' is {}, expected a floating scalar; sum it first or give "
                 "output gradients",
                 graph.node(loss.node).name, graph.type(loss).to_string());
  const Value ones;
  return add_gradients(graph, std::span(&loss, 1), std::span(&ones, 1), wrt);
}

}  // namespace trireme::graph
