// The rows of the zoo, one file per family. zoo.cc lists them.
#pragma once

#include <algorithm>
#include <cmath>

#include "trireme/model/layers.h"
#include "trireme/model/zoo.h"

namespace trireme::model {

extern const ZooRow kLenet, kLinear, kMlp;          // small.cc
extern const ZooRow kMnistCnn, kMnistMlp, kLenet5;  // mnist.cc
extern const ZooRow kSpeech42m;                     // speech.cc
extern const ZooRow kAlexnet, kAlexnet2012;         // alexnet.cc
extern const ZooRow kVgg11, kVgg16, kVgg19;         // vgg.cc
extern const ZooRow kGooglenet;                     // googlenet.cc
extern const ZooRow kResnet18, kResnet50;           // resnet.cc
extern const ZooRow kCharLstm;                      // char_lstm.cc
extern const ZooRow kCharGpt, kGpt2124m;            // gpt.cc
extern const ZooRow kAutoencoder;                   // autoencoder.cc
extern const ZooRow kLocalNet;                      // local_net.cc

// Channels times the option `scale`: at least 1.
inline std::int64_t scaled(std::int64_t channels, const Options& options) {
  const double wanted = std::round(static_cast<double>(channels) * options.get("scale"));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted));
}
inline constexpr OptionSpec kScaleOption{"scale", 1, "multiplies the width of every hidden layer"};

inline ModelInput digits_input() { return {Shape{1, 28, 28}, 10}; }
inline ModelInput imagenet_input() { return {Shape{3, 224, 224}, 1000}; }

}  // namespace trireme::model
