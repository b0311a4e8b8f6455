// The graphs around a model's layers: inputs, loss, metric, gradients.
#include "trireme/graph/pass/passes.h"
#include "trireme/model/layers.h"
#include "trireme/model/loss_scaling.h"
#include "trireme/op/ops.h"

namespace trireme::model {

using graph::Value;

std::string_view input_name(ModelTask task) { return task == ModelTask::kLanguage ? "tokens" : "images"; }
DType input_dtype(ModelTask task) { return task == ModelTask::kLanguage ? DType::kI32 : DType::kF32; }

namespace {

struct Scores {
  Value loss, correct;  // per sample or per token
};

// Weights per token: those of the text over its length, so that a text counts as one sample.
Value token_weights(graph::Builder& b, Value weights, std::int64_t n, std::int64_t t) {
  const Value spread = b.add_node(op::kBroadcastTo, {b.reshape(weights, {n, 1})},
                                  {{"shape", std::vector<std::int64_t>{n, t}}});
  const Value share = b.add_node(op::kScale, {spread}, {{"factor", 1.0 / static_cast<double>(t)}});
  return b.reshape(share, {n * t});
}

Result<Scores> add_scores(graph::Builder& b, Value x, Value weights, Value& logits, const ModelInput& input) {
  const std::int64_t n = b.type(x).shape[0];
  if (input.task == ModelTask::kReconstruct) {
    if (b.type(logits) != b.type(x)) logits = b.reshape(logits, b.type(x).shape);
    return Scores{b.add_node(op::kSquaredError, {logits, x, weights}), b.fill(0, DType::kF32, {n})};
  }
  const Shape& given = b.type(logits).shape;
  if (given.rank() < 2 || given[given.rank() - 1] != input.num_classes)
    return error(Code::kInvalid,
                 "[model] the last layer gives {}, expected {} scores for each sample; end with a layer of "
                 "kind \"classifier\"",
                 b.type(logits).to_string(), input.num_classes);
  if (input.task == ModelTask::kClassify) {
    const Value labels = b.input("labels", DType::kI32, {n});
    return Scores{b.softmax_cross_entropy(logits, labels, weights),
                  b.add_node(op::kCorrect, {logits, labels, weights})};
  }
  const std::int64_t t = input.sample_shape[0];
  const Value labels = b.reshape(b.input("labels", DType::kI32, {n, t}), {n * t});
  if (b.type(logits).shape.rank() != 2) logits = b.reshape(logits, {n * t, input.num_classes});
  const Value each = token_weights(b, weights, n, t);
  const Value right = b.add_node(op::kCorrect, {logits, labels, each});
  return Scores{b.softmax_cross_entropy(logits, labels, each),
                b.add_node(op::kScale, {right}, {{"factor", 1.0 / static_cast<double>(t)}})};
}

Status add_parameter_gradients(graph::Graph& g, std::span<const Parameter> parameters, bool scale_loss) {
  std::vector<Value> wrt, grads;
  for (const Parameter& p : parameters) wrt.push_back(*g.find_variable(p.name));
  const Value loss = *g.find_output("loss");
  if (scale_loss) {
    graph::Builder b(g);
    const Value scale = b.input("loss_scale", DType::kF32, {});
    TR_ASSIGN_OR_RETURN(ScaledGradients scaled, add_scaled_gradients(g, loss, scale, wrt));
    grads = std::move(scaled.gradients);
  } else {
    TR_ASSIGN_OR_RETURN(grads, graph::add_gradients(g, loss, wrt));
  }
  for (std::size_t i = 0; i < grads.size(); ++i) g.set_output("grad:" + parameters[i].name, grads[i]);
  return {};
}

Result<graph::Graph> build_graph(const ModelFn& build, const ModelInput& input, std::int64_t n, bool training,
                                 const GraphOptions& options, ModelGraphs& out) {
  graph::Graph g;
  graph::Builder b(g);
  std::vector<std::int64_t> dims{n};
  for (const std::int64_t d : input.sample_shape.dims()) dims.push_back(d);
  const Value x = b.input(input_name(input.task), input_dtype(input.task), Shape(dims));
  const Value weights = b.input("weights", DType::kF32, {n});
  LayerBuilder layers(b, training);
  Value logits = build(layers, x);
  TR_RETURN_IF_ERROR(layers.status());
  if (logits.is_null()) return error(Code::kInvalid, "[model] the builder of layers gave no value");
  TR_ASSIGN_OR_RETURN(const Scores scores, add_scores(b, x, weights, logits, input));
  Value loss = b.sum(scores.loss);
  if (training)
    for (const Value p : layers.penalties()) loss = b.add(loss, b.sum(b.mul(p, weights)));
  b.output("loss", loss);
  b.output("correct", b.sum(scores.correct));
  if (!training) b.output("logits", logits);
  TR_RETURN_IF_ERROR(layers.status());
  if (training) {
    out.parameters = layers.parameters();
    out.statistics = layers.statistics();
  }
  if (options.products != DType::kF32) {
    TR_ASSIGN_OR_RETURN(g, graph::lower_precision(g, options.products));
  }
  if (training) TR_RETURN_IF_ERROR(add_parameter_gradients(g, out.parameters, options.scale_loss));
  TR_RETURN_IF_ERROR(graph::verify(g));
  return g;
}

}  // namespace

Result<ModelGraphs> build_graphs(const ModelFn& build, const ModelInput& input, std::int64_t shard_batch,
                                 const GraphOptions& options) {
  if (input.task == ModelTask::kLanguage && input.sample_shape.rank() != 1)
    return error(Code::kInvalid, "[model] sample of a language model: got {}, expected [tokens]",
                 input.sample_shape.to_string());
  if (input.num_classes < 1)
    return error(Code::kInvalid, "[model] classes: got {}, expected at least 1", input.num_classes);
  ModelGraphs graphs;
  TR_ASSIGN_OR_RETURN(graphs.train, build_graph(build, input, shard_batch, true, options, graphs));
  TR_ASSIGN_OR_RETURN(graphs.eval, build_graph(build, input, shard_batch, false, options, graphs));
  return graphs;
}

Result<graph::Graph> statistics_update(std::span<const Statistic> statistics) {
  graph::Graph g;
  graph::Builder b(g);
  for (const Statistic& s : statistics) {
    const Value running = b.variable(s.name, s.type.dtype, s.type.shape);
    const Value now = b.input("stat:" + s.name, s.type.dtype, s.type.shape);
    b.output("updated:" + s.name,
             b.add_node(op::kApplyRunningAverage, {running, now}, {{"momentum", s.momentum}}));
  }
  TR_RETURN_IF_ERROR(b.status());
  TR_RETURN_IF_ERROR(graph::verify(g));
  return g;
}

}  // namespace trireme::model
