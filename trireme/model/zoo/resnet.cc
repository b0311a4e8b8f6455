// Residual networks (He et al. 2016) with projections where shapes change; the stride of a bottleneck is in
// its 3x3 convolution, as in Goyal et al. 2017 and PyTorch.
#include "trireme/model/zoo/scaled.h"

namespace trireme::model {
namespace {

using graph::Value;

struct Block {
  std::int64_t width, stride;
  bool bottleneck;
  BatchNormSpec last;  // of the branch
  std::int64_t out() const { return bottleneck ? 4 * width : width; }
};

Value conv_norm(LayerBuilder& l, int i, Value x, const ConvSpec& conv, const BatchNormSpec& norm = {}) {
  return l.batch_norm(fmt::format("bn{}", i), l.conv2d(fmt::format("conv{}", i), x, conv), norm);
}

Value residual(LayerBuilder& l, Value x, const Block& k) {
  graph::Builder& b = l.graph();
  if (x.is_null()) return x;
  const ConvSpec three{.out = k.width, .window = 3, .stride = k.stride, .padding = 1, .bias = false};
  Value y;
  if (k.bottleneck) {
    y = b.relu(conv_norm(l, 1, x, {.out = k.width, .bias = false}));
    y = b.relu(conv_norm(l, 2, y, three));
    y = conv_norm(l, 3, y, {.out = k.out(), .bias = false}, k.last);
  } else {
    y = b.relu(conv_norm(l, 1, x, three));
    y = conv_norm(l, 2, y, {.out = k.width, .window = 3, .padding = 1, .bias = false}, k.last);
  }
  Value skip = x;
  if (k.stride != 1 || b.type(x).shape[1] != k.out()) {
    const LayerBuilder::Scope scope(l, "down");
    skip = conv_norm(l, 1, x, {.out = k.out(), .stride = k.stride, .bias = false});
  }
  return b.relu(b.add(y, skip));
}

Value resnet(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o,
             std::span<const int> depths, bool bottleneck) {
  l.set_init("he-normal");
  graph::Builder& b = l.graph();
  const BatchNormSpec last{.zero_scale = o.get("zero_residual") != 0};
  std::int64_t width = scaled(64, o);
  x = b.relu(conv_norm(l, 1, x, {.out = width, .window = 7, .stride = 2, .padding = 3, .bias = false}));
  x = l.max_pool(x, {.window = 3, .stride = 2, .padding = 1});
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    for (int i = 0; i < depths[stage]; ++i) {
      const LayerBuilder::Scope scope(l, fmt::format("stage{}_{}", stage + 1, i));
      x = residual(l, x, {width, stage > 0 && i == 0 ? 2 : 1, bottleneck, last});
    }
    width *= 2;
  }
  l.set_init("normal(0.01)");  // the classifier of Goyal et al.
  return l.dense("fc", l.global_avg_pool(x), in.num_classes);
}

constexpr int k18[] = {2, 2, 2, 2}, k50[] = {3, 4, 6, 3};
Value resnet18(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o) {
  return resnet(l, x, in, o, k18, false);
}
Value resnet50(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o) {
  return resnet(l, x, in, o, k50, true);
}

constexpr OptionSpec kOptions[] = {
    kScaleOption, {"zero_residual", 0, "1: the last norm of a branch starts at scale 0 (Goyal et al. 2017)"}};

}  // namespace

extern constinit const ZooRow kResnet18{"resnet18",
                                        "ResNet of 18 layers (He et al. 2016): 11,689,512 parameters.",
                                        resnet18, imagenet_input, kOptions};
extern constinit const ZooRow kResnet50{"resnet50",
                                        "ResNet of 50 layers (He et al. 2016): 25,557,032 parameters.",
                                        resnet50, imagenet_input, kOptions};

}  // namespace trireme::model
