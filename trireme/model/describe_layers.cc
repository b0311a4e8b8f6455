// The layers that a description may name.
#include "trireme/model/describe_layers.h"

namespace trireme::model {
namespace {

using graph::Value;
using Type = LayerAttr::Type;

constexpr double kMostTaps = 65535;
constexpr LayerAttr kOut{"out", Type::kInt, true, 0, "", 1};
constexpr LayerAttr kBias{"bias", Type::kBool, false, 1};
constexpr LayerAttr kActivation{"activation", Type::kText, false, 0, "identity"};
constexpr LayerAttr kInit{"init", Type::kText, false, 0, "he"};
constexpr LayerAttr kHidden{"hidden", Type::kInt, true, 0, "", 1};

constexpr LayerAttr kDenseAttrs[] = {kOut, kBias, kActivation, kInit};
constexpr LayerAttr kClassifierAttrs[] = {kBias, kInit};
constexpr LayerAttr kConvAttrs[] = {kOut,
                                    {"window", Type::kInt, true, 0, "", 1, kMostTaps},
                                    {"stride", Type::kInt, false, 1, "", 1, kMostTaps},
                                    {"padding", Type::kInt, false, 0, "", 0, kMostTaps},
                                    {"dilation", Type::kInt, false, 1, "", 1, kMostTaps},
                                    {"groups", Type::kInt, false, 1, "", 1},
                                    kBias,
                                    kActivation,
                                    kInit};
constexpr LayerAttr kPoolAttrs[] = {{"window", Type::kInt, false, 2, "", 1, kMostTaps},
                                    {"stride", Type::kInt, false, 2, "", 1, kMostTaps},
                                    {"padding", Type::kInt, false, 0, "", 0, kMostTaps}};
constexpr LayerAttr kBatchNormAttrs[] = {{"eps", Type::kNumber, false, 1e-5, "", 0, 1},
                                         {"momentum", Type::kNumber, false, 0.1, "", 0, 1},
                                         {"zero_scale", Type::kBool},
                                         kActivation};
constexpr LayerAttr kLayerNormAttrs[] = {{"axes", Type::kInt, false, 1, "", 1, kMaxRank},
                                         {"eps", Type::kNumber, false, 1e-5, "", 0, 1}};
constexpr LayerAttr kResponseAttrs[] = {{"size", Type::kInt, false, 5, "", 1, kMostTaps},
                                        {"alpha", Type::kNumber, false, 5e-4},
                                        {"beta", Type::kNumber, false, 0.75},
                                        {"k", Type::kNumber, false, 2}};
constexpr LayerAttr kContrastAttrs[] = {{"window", Type::kInt, false, 9, "", 1, kMostTaps}};
constexpr LayerAttr kDropoutAttrs[] = {{"rate", Type::kNumber, true, 0, "", 0, 0.999}};
constexpr LayerAttr kEmbeddingAttrs[] = {{"width", Type::kInt, true, 0, "", 1},
                                         {"init", Type::kText, false, 0, "normal(0.02)"}};
constexpr LayerAttr kPositionsAttrs[] = {{"init", Type::kText, false, 0, "normal(0.02)"}};
constexpr LayerAttr kAttentionAttrs[] = {{"heads", Type::kInt, true, 0, "", 1},
                                         {"causal", Type::kBool},
                                         {"init", Type::kText, false, 0, "normal(0.02)"}};
constexpr LayerAttr kExpertsAttrs[] = {
    {"experts", Type::kInt, true, 0, "", 1},        kHidden,
    {"top", Type::kInt, false, 1, "", 1, 2},        {"capacity", Type::kNumber, false, 1.25},
    {"balance", Type::kNumber, false, 0.01},        {"activation", Type::kText, false, 0, "relu"},
    {"init", Type::kText, false, 0, "normal(0.02)"}};
constexpr LayerAttr kRecurrentAttrs[] = {kHidden};
constexpr LayerAttr kActivationAttrs[] = {{"function", Type::kText, true}};
constexpr LayerAttr kResidualAttrs[] = {{"layers", Type::kLayers, true}, kActivation};

ConvSpec conv_spec(const LayerSettings& s) {
  return {.out = s.integer("out"),
          .window = s.integer("window"),
          .stride = s.integer("stride"),
          .padding = s.integer("padding"),
          .dilation = s.integer("dilation"),
          .groups = s.integer("groups"),
          .bias = s.number("bias") != 0};
}
PoolSpec pool_spec(const LayerSettings& s) {
  return {.window = s.integer("window"), .stride = s.integer("stride"), .padding = s.integer("padding")};
}

ExpertsSpec experts_spec(const LayerSettings& s) {
  return {.experts = s.integer("experts"),
          .hidden = s.integer("hidden"),
          .top = s.integer("top"),
          .capacity = s.number("capacity"),
          .balance = s.number("balance"),
          .activation = s.text("activation")};
}

Value residual(LayerBuilder& l, Value x, const LayerSettings& s) {
  Value y;
  {
    const LayerBuilder::Scope scope(l, s.name);
    y = build_layers(l, x, s.inner);
  }
  return l.status().ok() ? l.activation(s.text("activation"), l.graph().add(x, y)) : Value{};
}

// Texts keep their tokens, everything else is flattened.
Value classifier(LayerBuilder& l, Value x, const LayerSettings& s) {
  l.set_init(s.text("init"));
  const bool bias = s.number("bias") != 0;
  if (s.input.task == ModelTask::kLanguage) return l.linear(s.name, x, s.input.num_classes, bias);
  const bool rebuilds = s.input.task == ModelTask::kReconstruct;
  return l.dense(s.name, x, rebuilds ? s.input.sample_shape.num_elems() : s.input.num_classes, bias);
}

constexpr LayerRow kRows[] = {
    {"dense", "Fully connected, of the flattened sample.", kDenseAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) {
       l.set_init(s.text("init"));
       return l.activation(s.text("activation"), l.dense(s.name, x, s.integer("out"), s.number("bias") != 0));
     }},
    {"linear", "Fully connected along the last dimension.", kDenseAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) {
       l.set_init(s.text("init"));
       return l.activation(s.text("activation"),
                           l.linear(s.name, x, s.integer("out"), s.number("bias") != 0));
     }},
    {"classifier", "Fully connected to the classes, the vocabulary or the sample to rebuild.",
     kClassifierAttrs, classifier},
    {"conv2d", "Convolution.", kConvAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) {
       l.set_init(s.text("init"));
       return l.activation(s.text("activation"), l.conv2d(s.name, x, conv_spec(s)));
     }},
    {"locally_connected", "Convolution with a filter per position.", kConvAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) {
       l.set_init(s.text("init"));
       return l.activation(s.text("activation"), l.locally_connected(s.name, x, conv_spec(s)));
     }},
    {"max_pool", "Maximum over windows.", kPoolAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) { return l.max_pool(x, pool_spec(s)); }},
    {"avg_pool", "Average over windows.", kPoolAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) { return l.avg_pool(x, pool_spec(s)); }},
    {"l2_pool", "Root of the sum of squares over windows.", kPoolAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) { return l.l2_pool(x, pool_spec(s)); }},
    {"global_avg_pool",
     "Average over the image.",
     {},
     [](LayerBuilder& l, Value x, const LayerSettings&) { return l.global_avg_pool(x); }},
    {"flatten",
     "All dimensions of a sample as one.",
     {},
     [](LayerBuilder& l, Value x, const LayerSettings&) { return l.flatten(x); }},
    {"batch_norm", "Batch normalisation per channel.", kBatchNormAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) {
       const BatchNormSpec spec{s.number("eps"), s.number("momentum"), s.number("zero_scale") != 0};
       return l.activation(s.text("activation"), l.batch_norm(s.name, x, spec));
     }},
    {"layer_norm", "Normalisation over the last dimensions.", kLayerNormAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) {
       return l.layer_norm(s.name, x, s.integer("axes"), s.number("eps"));
     }},
    {"local_response_norm", "Normalisation over neighbouring channels.", kResponseAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) {
       return l.local_response_norm(x, s.integer("size"), s.number("alpha"), s.number("beta"), s.number("k"));
     }},
    {"local_contrast_norm", "Subtractive and divisive normalisation over a window.", kContrastAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) {
       return l.local_contrast_norm(x, s.integer("window"));
     }},
    {"dropout", "Drops a fraction of the values in training.", kDropoutAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) { return l.dropout(s.name, x, s.number("rate")); }},
    {"embedding", "A vector per token of the vocabulary.", kEmbeddingAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) {
       l.set_init(s.text("init"));
       return l.embedding(s.name, x, s.input.num_classes, s.integer("width"));
     }},
    {"positions", "Adds a trained vector per position.", kPositionsAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) {
       l.set_init(s.text("init"));
       return l.positions(s.name, x);
     }},
    {"attention", "Self-attention over the tokens.", kAttentionAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) {
       l.set_init(s.text("init"));
       return l.attention(s.name, x, s.integer("heads"), s.number("causal") != 0);
     }},
    {"experts", "Several MLPs, of which a token gets those that a gate chooses.", kExpertsAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) {
       l.set_init(s.text("init"));
       return l.experts(s.name, x, experts_spec(s));
     }},
    {"rnn", "Elman network over the tokens.", kRecurrentAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) { return l.rnn(s.name, x, s.integer("hidden")); }},
    {"lstm", "LSTM over the tokens.", kRecurrentAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) { return l.lstm(s.name, x, s.integer("hidden")); }},
    {"gru", "GRU over the tokens.", kRecurrentAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) { return l.gru(s.name, x, s.integer("hidden")); }},
    {"activation", "A function of every value.", kActivationAttrs,
     [](LayerBuilder& l, Value x, const LayerSettings& s) { return l.activation(s.text("function"), x); }},
    {"residual", "Adds what its layers make to what they read.", kResidualAttrs, residual},
};

}  // namespace

std::span<const LayerRow> layer_table() { return kRows; }

Value build_layers(LayerBuilder& l, Value x, std::span<const LayerSettings> layers) {
  for (const LayerSettings& layer : layers) {
    x = layer.row->build(l, x, layer);
    if (l.status().ok()) continue;
    // The innermost layer explains.
    if (!l.status().message().starts_with("[model] layer ") || layer.inner.empty()) l.explain(layer.where);
    return {};
  }
  return x;
}

}  // namespace trireme::model
