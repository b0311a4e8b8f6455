// AlexNet in both published forms.
#include "trireme/model/zoo/scaled.h"

namespace trireme::model {
namespace {

using graph::Value;
constexpr PoolSpec kPool{.window = 3, .stride = 2};

Value classifier(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o) {
  graph::Builder& b = l.graph();
  l.set_init(
      "normal(0.01)");  // as in the paper of 2012; values that suit convolutions are too large after pooling
  x = l.dropout("drop6", x, o.get("dropout"));
  x = b.relu(l.dense("fc6", x, scaled(4096, o)));
  x = l.dropout("drop7", x, o.get("dropout"));
  x = b.relu(l.dense("fc7", x, scaled(4096, o)));
  return l.dense("fc8", x, in.num_classes);
}

// One tower without normalisation: Krizhevsky, "One weird trick for parallelizing convolutional neural
// networks", 2014; 61,100,840 parameters.
Value alexnet(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o) {
  graph::Builder& b = l.graph();
  x = l.max_pool(b.relu(l.conv2d("conv1", x, scaled(64, o), 11, 4, 2)), kPool);
  x = l.max_pool(b.relu(l.conv2d("conv2", x, scaled(192, o), 5, 1, 2)), kPool);
  x = b.relu(l.conv2d("conv3", x, scaled(384, o), 3, 1, 1));
  x = b.relu(l.conv2d("conv4", x, scaled(256, o), 3, 1, 1));
  x = l.max_pool(b.relu(l.conv2d("conv5", x, scaled(256, o), 3, 1, 1)), kPool);
  return classifier(l, x, in, o);
}

// Two towers as groups, response normalisation after layers 1 and 2, overlapping pooling (Krizhevsky et al.
// 2012): 60,965,224 parameters.
Value alexnet_2012(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o) {
  graph::Builder& b = l.graph();
  const auto channels = [&](std::int64_t n) { return 2 * scaled(n / 2, o); };
  x = b.relu(l.conv2d("conv1", x, channels(96), 11, 4, 2));
  x = l.max_pool(l.local_response_norm(x), kPool);
  x = b.relu(l.conv2d("conv2", x, {.out = channels(256), .window = 5, .padding = 2, .groups = 2}));
  x = l.max_pool(l.local_response_norm(x), kPool);
  x = b.relu(l.conv2d("conv3", x, channels(384), 3, 1, 1));
  x = b.relu(l.conv2d("conv4", x, {.out = channels(384), .window = 3, .padding = 1, .groups = 2}));
  x = b.relu(l.conv2d("conv5", x, {.out = channels(256), .window = 3, .padding = 1, .groups = 2}));
  return classifier(l, l.max_pool(x, kPool), in, o);
}

constexpr OptionSpec kOptions[] = {kScaleOption, {"dropout", 0.5, "fraction dropped before fc6 and fc7"}};

}  // namespace

extern constinit const ZooRow kAlexnet{"alexnet",
                                       "AlexNet in one tower (Krizhevsky 2014): 61,100,840 parameters.",
                                       alexnet, imagenet_input, kOptions};
extern constinit const ZooRow kAlexnet2012{
    "alexnet-2012",
    "AlexNet in two towers with response normalisation (Krizhevsky et al. 2012): 60,965,224 parameters.",
    alexnet_2012, imagenet_input, kOptions};

}  // namespace trireme::model
