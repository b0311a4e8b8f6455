// What families of the zoo share: widths that an option scales, inputs as published.
#pragma once

#include <algorithm>
#include <cmath>

#include "trireme/model/layers.h"
#include "trireme/model/zoo.h"

namespace trireme::model {

// Channels times the option `scale`: at least 1.
inline std::int64_t scaled(std::int64_t channels, const ModelOptions& options) {
  const double wanted = std::round(static_cast<double>(channels) * options.get("scale"));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted));
}
inline constexpr OptionSpec kScaleOption{"scale", 1, "multiplies the width of every hidden layer"};

inline ModelInput digits_input() { return {Shape{1, 28, 28}, 10}; }
inline ModelInput imagenet_input() { return {Shape{3, 224, 224}, 1000}; }

}  // namespace trireme::model
