// The models of the built-in job and of its tests.
#include "trireme/model/zoo/scaled.h"

namespace trireme::model {
namespace {

using graph::Value;

Value linear(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions&) {
  return l.dense("fc", x, in.num_classes);
}

Value mlp(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions&) {
  graph::Builder& b = l.graph();
  x = b.relu(l.dense("fc1", x, 256));
  x = l.dropout("drop1", x, 0.2);
  return l.dense("fc2", x, in.num_classes);
}

// LeNet's plan (LeCun et al. 1998) with rectifiers, max pooling and dropout before the classifier.
Value lenet(LayerBuilder& l, Value x, const ModelInput& in, const ModelOptions&) {
  graph::Builder& b = l.graph();
  x = b.max_pool2d(b.relu(l.conv2d("conv1", x, 16, 5, 1, 2)), 2, 2);
  x = b.max_pool2d(b.relu(l.conv2d("conv2", x, 32, 5, 1, 2)), 2, 2);
  x = b.relu(l.dense("fc1", x, 128));
  x = l.dropout("drop1", x, 0.25);
  return l.dense("fc2", x, in.num_classes);
}

}  // namespace

extern constinit const ZooRow kLenet{
    "lenet", "Two 5x5 convolutions (16, 32), pooling, 128 hidden units: 215,370 parameters on 28x28 images.",
    lenet, digits_input};
extern constinit const ZooRow kLinear{"linear", "Softmax regression.", linear, digits_input};
extern constinit const ZooRow kMlp{"mlp", "One hidden layer of 256 rectifiers.", mlp, digits_input};

}  // namespace trireme::model
