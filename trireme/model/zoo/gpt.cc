// Decoder-only transformers in GPT-2's form (Radford et al. 2019): norms before attention and before the MLP,
// a norm at the end, GELU by tanh, the table of tokens tied to the output. The context is the length of a
// sample. With experts, every second block has a mixture of them for its MLP (Lepikhin et al. 2020).
#include "trireme/model/zoo/scaled.h"

namespace trireme::model {
namespace {

using graph::Value;

Value mlp(LayerBuilder& l, Value x, std::int64_t width, const std::string& residual_init) {
  const Value y = l.activation("gelu_tanh", l.linear("up", x, 4 * width));
  l.set_init(residual_init);
  const Value out = l.linear("down", y, width);
  l.set_init("normal(0.02)");
  return out;
}

ExpertsSpec experts_of(const ModelOptions& o, std::int64_t width, const std::string& residual_init) {
  return {.experts = o.get_int("experts"),
          .hidden = 4 * width,
          .top = o.get_int("top"),
          .capacity = o.get("capacity"),
          .balance = o.get("balance"),
          .activation = "gelu_tanh",
          .out_init = residual_init};
}

Value block(LayerBuilder& l, Value x, std::int64_t width, const ModelOptions& o,
            const std::string& residual_init, bool mixes) {
  graph::Builder& b = l.graph();
  const double rate = o.get("dropout");
  Value y =
      l.attention("attention", l.layer_norm("norm1", x), o.get_int("heads"), /*causal=*/true, residual_init);
  x = b.add(x, l.dropout("drop1", y, rate));
  y = l.layer_norm("norm2", x);
  y = mixes ? l.experts("experts", y, experts_of(o, width, residual_init)) : mlp(l, y, width, residual_init);
  return b.add(x, l.dropout("drop2", y, rate));
}

Value gpt(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o) {
  const std::int64_t width = o.get_int("width"), layers = o.get_int("layers");
  // Branches that end in the residual stream start smaller by 1 / sqrt(how many of them there are).
  const std::string residual_init = fmt::format(
      "normal({})", 0.02 / std::sqrt(2.0 * static_cast<double>(std::max<std::int64_t>(layers, 1))));
  if (o.get_int("experts") > 0 && layers < 2)
    return l.fail(error(Code::kInvalid,
                        "[model] experts are in every second block: got {} layers, expected 2 or more",
                        layers));
  l.set_init("normal(0.02)");
  x = l.positions("positions", l.embedding("tokens", x, in.num_classes, width));
  x = l.dropout("drop", x, o.get("dropout"));
  for (std::int64_t i = 0; i < layers; ++i) {
    const LayerBuilder::Scope scope(l, fmt::format("block{}", i));
    x = block(l, x, width, o, residual_init, /*mixes=*/i % 2 == 1 && o.get_int("experts") > 0);
  }
  return l.tied("tokens", l.layer_norm("norm", x));
}

ModelInput characters() { return {Shape{128}, 65, ModelTask::kLanguage}; }
ModelInput byte_pairs() { return {Shape{1024}, 50257, ModelTask::kLanguage}; }
constexpr const char *kWidth = "of the residual stream", *kLayers = "blocks", *kHeads = "of attention",
                     *kDropout = "fraction dropped at the input and at the end of branches";
constexpr OptionSpec kExperts{"experts", 0, "in place of the MLP of every second block; 0: none"},
    kTop{"top", 1, "experts of a token: 1 or 2"},
    kCapacity{"capacity", 1.25, "tokens that an expert takes, as a multiple of its even share"},
    kBalance{"balance", 0.01, "weight of the loss that keeps experts evenly used"};
constexpr OptionSpec kCharOptions[] = {{"width", 256, kWidth},
                                       {"layers", 4, kLayers},
                                       {"heads", 4, kHeads},
                                       {"dropout", 0, kDropout},
                                       kExperts,
                                       kTop,
                                       kCapacity,
                                       kBalance};
constexpr OptionSpec kGpt2Options[] = {{"width", 768, kWidth},
                                       {"layers", 12, kLayers},
                                       {"heads", 12, kHeads},
                                       {"dropout", 0.1, kDropout},
                                       kExperts,
                                       kTop,
                                       kCapacity,
                                       kBalance};

}  // namespace

extern constinit const ZooRow kCharGpt{
    "char-gpt",
    "GPT of 4 layers, 256 wide, over characters: 3,208,960 parameters at 65 characters, context 128.", gpt,
    characters, kCharOptions};
extern constinit const ZooRow kGpt2124m{"gpt2-124m", "GPT-2 small: 124,439,808 parameters.", gpt, byte_pairs,
                                        kGpt2Options};

}  // namespace trireme::model
