// VGG (Simonyan and Zisserman 2014): configurations A, D and E of their table 1.
#include "trireme/model/zoo/scaled.h"

namespace trireme::model {
namespace {

using graph::Value;

// `depths[i]`: 3x3 convolutions before pooling i.
Value vgg(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o,
          std::span<const int> depths) {
  graph::Builder& b = l.graph();
  std::int64_t channels = 64;
  for (std::size_t block = 0; block < depths.size(); ++block) {
    for (int i = 1; i <= depths[block]; ++i)
      x = b.relu(l.conv2d(fmt::format("conv{}_{}", block + 1, i), x, scaled(channels, o), 3, 1, 1));
    x = l.max_pool(x, {});
    channels = std::min<std::int64_t>(2 * channels, 512);
  }
  // Pooling takes the largest of many values, so what reaches the fully connected layers is large: with the
  // initial values that suit convolutions the first loss is four times that of guessing, and training breaks.
  l.set_init("normal(0.01)");
  x = l.dropout("drop1", b.relu(l.dense("fc1", x, scaled(4096, o))), o.get("dropout"));
  x = l.dropout("drop2", b.relu(l.dense("fc2", x, scaled(4096, o))), o.get("dropout"));
  return l.dense("fc3", x, in.num_classes);
}

constexpr int kA[] = {1, 1, 2, 2, 2}, kD[] = {2, 2, 3, 3, 3}, kE[] = {2, 2, 4, 4, 4};
template <const int (&kDepths)[5]>
Value build(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o) {
  return vgg(l, x, in, o, kDepths);
}

constexpr OptionSpec kOptions[] = {kScaleOption, {"dropout", 0.5, "fraction dropped after fc1 and fc2"}};

}  // namespace

extern constinit const ZooRow kVgg11{"vgg11", "VGG, 11 weight layers: 132,863,336 parameters.", build<kA>,
                                     imagenet_input, kOptions};
extern constinit const ZooRow kVgg16{"vgg16", "VGG, 16 weight layers: 138,357,544 parameters.", build<kD>,
                                     imagenet_input, kOptions};
extern constinit const ZooRow kVgg19{"vgg19", "VGG, 19 weight layers: 143,667,240 parameters.", build<kE>,
                                     imagenet_input, kOptions};

}  // namespace trireme::model
