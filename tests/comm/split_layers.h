// Three fully connected layers, whole and cut over ranks, for tests of graphs with collectives.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/graph/builder.h"

namespace trireme::comm::testing {

// Weights [out, in] and biases [out], layer by layer.
struct Layers {
  std::array<std::int64_t, 4> widths{};  // of the input and of what each layer gives
  std::array<std::string, 6> names;      // weight, bias, weight...
  DType dtype = DType::kF32;
};

// What a rank computes of it.
struct Share {
  int rank = 0, world = 1;
  // Samples change hands: every rank computes what the rank before it was given.
  bool passes_samples = false;
};

struct Samples {
  graph::Value x, labels, weights;  // [n, width], i32[n], f32[n]
};

// Outputs "loss" and "correct", sums over samples.
void add_scores(graph::Builder& b, graph::Value logits, const Samples& samples);
// All of the layers, for these samples.
graph::Value whole_layers(graph::Builder& b, const Layers& layers, graph::Value x);
// The same for the samples of all ranks together, of which this rank's are given and returned: every rank has
// some columns of the first layer, which are gathered, and some of the second, whose parts of the third are
// added. Every rank has whole variables and uses a part of them, so their gradients are sums over ranks. Uses
// all six ops of op/comm where samples change hands, with those of the gradients.
graph::Value split_layers(graph::Builder& b, const Layers& layers, const Share& share, Samples& samples);

}  // namespace trireme::comm::testing
