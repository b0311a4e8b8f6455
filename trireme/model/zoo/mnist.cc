// Models for 28x28 digits that others have published figures of.
#include "trireme/model/zoo/scaled.h"

namespace trireme::model {
namespace {

using graph::Value;

// Two 5x5 convolutions of 32 and 64 channels and 512 hidden units: 1,663,370 parameters.
Value mnist_cnn(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o) {
  graph::Builder& b = l.graph();
  l.set_init("torch");  // small weights: 0.1 % better after three epochs than He's, over three seeds
  x = l.max_pool(b.relu(l.conv2d("conv1", x, scaled(32, o), 5, 1, 2)), {});
  x = l.max_pool(b.relu(l.conv2d("conv2", x, scaled(64, o), 5, 1, 2)), {});
  x = b.relu(l.dense("fc1", x, scaled(512, o)));
  x = l.dropout("drop1", x, o.get("dropout"));
  return l.dense("fc2", x, in.num_classes);
}

// 784-512-512-10: 669,706 parameters.
Value mnist_mlp(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o) {
  graph::Builder& b = l.graph();
  x = l.dropout("drop1", b.relu(l.dense("fc1", x, scaled(512, o))), o.get("dropout"));
  x = l.dropout("drop2", b.relu(l.dense("fc2", x, scaled(512, o))), o.get("dropout"));
  return l.dense("fc3", x, in.num_classes);
}

// LeNet-5's layers (LeCun et al. 1998) fully connected between maps, with rectifiers and max pooling: 61,706
// parameters.
Value lenet5(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions& o) {
  graph::Builder& b = l.graph();
  l.set_init("torch");
  x = l.max_pool(b.relu(l.conv2d("conv1", x, scaled(6, o), 5, 1, 2)), {});
  x = l.max_pool(b.relu(l.conv2d("conv2", x, scaled(16, o), 5, 1, 0)), {});
  x = b.relu(l.dense("fc1", x, scaled(120, o)));
  x = b.relu(l.dense("fc2", x, scaled(84, o)));
  return l.dense("fc3", x, in.num_classes);
}

constexpr OptionSpec kCnnOptions[] = {kScaleOption,
                                      {"dropout", 0.4, "fraction dropped before the classifier"}};
constexpr OptionSpec kMlpOptions[] = {kScaleOption, {"dropout", 0.2, "fraction dropped after each layer"}};
constexpr OptionSpec kLenet5Options[] = {kScaleOption};

}  // namespace

extern constinit const ZooRow kMnistCnn{
    "mnist-cnn", "Convolutions of 32 and 64 channels, 512 hidden: 1,663,370 parameters.", mnist_cnn,
    digits_input, kCnnOptions};
extern constinit const ZooRow kMnistMlp{"mnist-mlp",
                                        "Two hidden layers of 512 rectifiers: 669,706 parameters.", mnist_mlp,
                                        digits_input, kMlpOptions};
extern constinit const ZooRow kLenet5{"lenet5",
                                      "LeNet-5 (LeCun et al. 1998) with rectifiers: 61,706 parameters.",
                                      lenet5, digits_input, kLenet5Options};

}  // namespace trireme::model
