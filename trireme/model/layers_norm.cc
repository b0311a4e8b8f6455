// Normalisation layers and activations.
#include "trireme/model/layers.h"
#include "trireme/op/ops.h"

namespace trireme::model {

using graph::Value;

namespace {

struct ActivationRow {
  const char* name;
  const op::OpDef* def;  // null: the identity
};
constexpr ActivationRow kActivations[] = {
    {"relu", &op::kRelu},         {"leaky_relu", &op::kLeakyRelu}, {"elu", &op::kElu},
    {"gelu", &op::kGelu},         {"gelu_tanh", &op::kGelu},       {"silu", &op::kSilu},
    {"softplus", &op::kSoftplus}, {"sigmoid", &op::kSigmoid},      {"tanh", &op::kTanh},
    {"softmax", &op::kSoftmax},   {"identity", nullptr},
};

}  // namespace

std::string activation_names() {
  std::string names;
  for (const ActivationRow& row : kActivations)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

Value LayerBuilder::activation(std::string_view kind, Value x) {
  for (const ActivationRow& row : kActivations) {
    if (kind != row.name) continue;
    if (row.def == nullptr || !usable(kind, x, 0)) return x;
    return b_.add_node(*row.def, {x}, kind == "gelu_tanh" ? op::Attrs{{"tanh", true}} : op::Attrs{});
  }
  return fail(
      error(Code::kInvalid, "[model] activation: got '{}', expected one of: {}", kind, activation_names()));
}

Value LayerBuilder::statistic(std::string_view name, const Shape& shape, double initial, double momentum) {
  const std::string path = b_.graph().scope().append(name);
  statistics_.push_back({path, {DType::kF32, shape}, initial, momentum});
  return training_ ? Value{} : b_.variable(name, DType::kF32, shape);
}

// Outputs "stat:...": the shard's mean and unbiased variance, as PyTorch's running ones, times the share of
// this shard in the step.
void LayerBuilder::give_statistics(const std::string& mean, const std::string& var, Value normed, Value x) {
  const auto weights = b_.graph().find_input("weights");
  const Value share = weights ? b_.sum(*weights) : b_.fill(1, DType::kF32, {});
  std::vector<std::int64_t> axes{0};
  for (int d = 2; d < b_.type(x).shape.rank(); ++d) axes.push_back(d);
  const Value n = b_.add_node(op::kCount, {x}, {{"axes", axes}});
  const Value one = b_.fill(1, DType::kF32, {});
  const Value rest = b_.add_node(op::kMaximum, {b_.sub(n, one), one});
  const Value unbiased = b_.add_node(op::kDiv, {b_.mul(share, n), rest});
  b_.output("stat:" + mean, b_.mul(Value{normed.node, 1}, share));
  b_.output("stat:" + var, b_.mul(Value{normed.node, 2}, unbiased));
}

Value LayerBuilder::batch_norm(std::string_view name, Value x, const BatchNormSpec& spec) {
  if (!usable(name, x, 2)) return {};
  const Scope scope(*this, name);
  const Shape channels{b_.type(x).shape[1]};
  const Value scale = parameter("scale", channels, spec.zero_scale ? "zeros" : "ones", {});
  const Value bias = zeros("bias", channels);
  const Value mean = statistic("mean", channels, 0, spec.momentum);
  const Value var = statistic("var", channels, 1, spec.momentum);
  const op::Attrs attrs{{"eps", spec.eps}};
  if (!training_) return b_.add_node(op::kBatchNormInference, {x, scale, bias, mean, var}, attrs);
  const Value y = b_.add_node(op::kBatchNorm, {x, scale, bias}, attrs);
  const std::size_t last = statistics_.size() - 1;
  if (!y.is_null()) give_statistics(statistics_[last - 1].name, statistics_[last].name, y, x);
  return y;
}

Value LayerBuilder::layer_norm(std::string_view name, Value x, std::int64_t num_axes, double eps) {
  if (!usable(name, x,
              static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(num_axes, 1), kMaxRank))))
    return {};
  const Scope scope(*this, name);
  const auto dims = b_.type(x).shape.dims();
  const Shape shape(dims.last(static_cast<std::size_t>(std::max<std::int64_t>(num_axes, 1))));
  const Value scale = parameter("scale", shape, "ones", {});
  const Value bias = zeros("bias", shape);
  return b_.add_node(op::kLayerNorm, {x, scale, bias}, {{"num_axes", num_axes}, {"eps", eps}});
}

Value LayerBuilder::local_response_norm(Value x, std::int64_t size, double alpha, double beta, double k) {
  if (!usable("local_response_norm", x, 2)) return {};
  return b_.add_node(op::kLocalResponseNorm, {x},
                     {{"size", size}, {"alpha", alpha}, {"beta", beta}, {"k", k}});
}

Value LayerBuilder::local_contrast_norm(Value x, std::int64_t window) {
  if (!usable("local_contrast_norm", x, 4)) return {};
  return b_.add_node(op::kLocalContrastNorm, {x}, {{"window", window}});
}

}  // namespace trireme::model
