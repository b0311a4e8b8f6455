#include "trireme/model/zoo.h"

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/model/layers.h"
#include "trireme/op/ops.h"

namespace trireme::model {
namespace {

using graph::Value;

Value linear(LayerBuilder& l, Value x, int num_classes) { return l.dense("fc", x, num_classes); }

Value mlp(LayerBuilder& l, Value x, int num_classes) {
  graph::Builder& b = l.graph();
  x = b.relu(l.dense("fc1", x, 256));
  x = l.dropout("drop1", x, 0.2);
  return l.dense("fc2", x, num_classes);
}

// LeNet's plan (LeCun et al. 1998) with rectifiers, max pooling and dropout before the classifier.
Value lenet(LayerBuilder& l, Value x, int num_classes) {
  graph::Builder& b = l.graph();
  x = b.max_pool2d(b.relu(l.conv2d("conv1", x, 16, 5, 1, 2)), 2, 2);
  x = b.max_pool2d(b.relu(l.conv2d("conv2", x, 32, 5, 1, 2)), 2, 2);
  x = b.relu(l.dense("fc1", x, 128));
  x = l.dropout("drop1", x, 0.25);
  return l.dense("fc2", x, num_classes);
}

constexpr ZooRow kZoo[] = {
    {"lenet",
     "Two 5x5 convolutions (16, 32), pooling, 128 hidden units: 215,370 parameters on 28x28 pictures.",
     lenet},
    {"linear", "Softmax regression.", linear},
    {"mlp", "One hidden layer of 256 rectifiers.", mlp},
};

Result<graph::Graph> build_graph(const ZooRow& row, const ModelInput& input, std::int64_t n, bool training,
                                 std::vector<Parameter>& parameters) {
  graph::Graph g;
  graph::Builder b(g);
  std::vector<std::int64_t> dims{n};
  for (const std::int64_t d : input.sample_shape.dims()) dims.push_back(d);
  const Value images = b.input("images", DType::kF32, Shape(dims));
  const Value labels = b.input("labels", DType::kI32, {n});
  const Value weights = b.input("weights", DType::kF32, {n});
  LayerBuilder layers(b, training);
  const Value logits = row.build(layers, images, input.num_classes);
  const Value loss = b.sum(b.softmax_cross_entropy(logits, labels, weights));
  const Value correct = b.sum(b.add_node(op::kCorrect, {logits, labels, weights}));
  b.output("loss", loss);
  b.output("correct", correct);
  TR_RETURN_IF_ERROR(b.status());
  parameters = layers.parameters();
  if (training) {
    std::vector<Value> wrt;
    for (const Parameter& p : parameters) wrt.push_back(*g.find_variable(p.name));
    TR_ASSIGN_OR_RETURN(const std::vector<Value> grads, graph::add_gradients(g, loss, wrt));
    for (std::size_t i = 0; i < grads.size(); ++i) g.set_output("grad:" + parameters[i].name, grads[i]);
  }
  TR_RETURN_IF_ERROR(graph::verify(g));
  return g;
}

}  // namespace

std::span<const ZooRow> zoo() { return kZoo; }

Result<ModelGraphs> build_model(std::string_view name, const ModelInput& input, std::int64_t shard_batch) {
  std::string known;
  for (const ZooRow& row : kZoo) {
    if (name == row.name) {
      ModelGraphs graphs;
      std::vector<Parameter> eval_parameters;
      TR_ASSIGN_OR_RETURN(graphs.train, build_graph(row, input, shard_batch, true, graphs.parameters));
      TR_ASSIGN_OR_RETURN(graphs.eval, build_graph(row, input, shard_batch, false, eval_parameters));
      return graphs;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return error(Code::kNotFound, "[model] no model is called '{}'; expected one of: {}", name, known);
}

void initialise(const Parameter& parameter, std::uint64_t seed, std::span<float> values) {
  const std::uint64_t key = mix_key(seed, hash_text("initial values"), hash_text(parameter.name));
  const auto bound = static_cast<float>(parameter.bound);
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const std::uint64_t block = i / 4;
    const auto words =
        philox4x32(key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
    for (std::size_t j = i; j < std::min(i + 4, values.size()); ++j)
      values[j] = bound == 0 ? 0.0F : bound * (2.0F * to_uniform(words[j - i]) - 1.0F);
  }
}

}  // namespace trireme::model
