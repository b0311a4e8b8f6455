// GoogLeNet (Szegedy et al. 2015, table 1) without the two auxiliary classifiers. Counted layer by layer,
// with biases, it has 6,998,552 parameters; the paper's own column adds up to 6.8 million (it gives the first
// layer, whose 7x7x3x64 taps are 9.4 K, as 2.7 K).
#include "trireme/model/zoo/scaled.h"
#include "trireme/op/ops.h"

namespace trireme::model {
namespace {

using graph::Value;

struct Inception {
  const char* name;
  std::int64_t one, reduce3, three, reduce5, five, pool;
  bool pool_after;
};
constexpr Inception kBlocks[] = {
    {"3a", 64, 96, 128, 16, 32, 32, false},     {"3b", 128, 128, 192, 32, 96, 64, true},
    {"4a", 192, 96, 208, 16, 48, 64, false},    {"4b", 160, 112, 224, 24, 64, 64, false},
    {"4c", 128, 128, 256, 24, 64, 64, false},   {"4d", 112, 144, 288, 32, 64, 64, false},
    {"4e", 256, 160, 320, 32, 128, 128, true},  {"5a", 256, 160, 320, 32, 128, 128, false},
    {"5b", 384, 192, 384, 48, 128, 128, false},
};
// Padding stands for the paper's rounding up: 112 -> 56 -> 28 -> 14 -> 7.
constexpr PoolSpec kPool{.window = 3, .stride = 2, .padding = 1};

Value conv(LayerBuilder& l, std::string_view name, Value x, std::int64_t out, std::int64_t window) {
  return l.graph().relu(l.conv2d(name, x, out, window, 1, window / 2));
}

Value inception(LayerBuilder& l, Value x, const Inception& i, const ModelOptions& o) {
  const LayerBuilder::Scope scope(l, fmt::format("inception{}", i.name));
  const Value one = conv(l, "1x1", x, scaled(i.one, o), 1);
  const Value three =
      conv(l, "3x3", conv(l, "3x3_reduce", x, scaled(i.reduce3, o), 1), scaled(i.three, o), 3);
  const Value five = conv(l, "5x5", conv(l, "5x5_reduce", x, scaled(i.reduce5, o), 1), scaled(i.five, o), 5);
  const Value pooled = l.max_pool(x, {.window = 3, .stride = 1, .padding = 1});
  const Value pool = conv(l, "pool_proj", pooled, scaled(i.pool, o), 1);
  return l.graph().add_node(op::kConcat, {one, three, five, pool}, {{"axis", std::int64_t{1}}});
}

Value googlenet(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o) {
  l.set_init("xavier");
  x = l.max_pool(l.graph().relu(l.conv2d("conv1", x, scaled(64, o), 7, 2, 3)), kPool);
  x = conv(l, "conv2_reduce", l.local_response_norm(x), scaled(64, o), 1);
  x = l.max_pool(l.local_response_norm(conv(l, "conv2", x, scaled(192, o), 3)), kPool);
  for (const Inception& block : kBlocks) {
    x = inception(l, x, block, o);
    if (block.pool_after) x = l.max_pool(x, kPool);
  }
  x = l.dropout("drop", l.global_avg_pool(x), o.get("dropout"));
  return l.dense("fc", x, in.num_classes);
}

constexpr OptionSpec kOptions[] = {kScaleOption, {"dropout", 0.4, "fraction dropped before the classifier"}};

}  // namespace

extern constinit const ZooRow kGooglenet{
    "googlenet", "GoogLeNet (Szegedy et al. 2015) without auxiliary classifiers: 6,998,552 parameters.",
    googlenet, imagenet_input, kOptions};

}  // namespace trireme::model
