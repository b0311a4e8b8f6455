// Segments: a model cut in its depth between layers, where no pass crosses. Pure.
//
// A segment's graph is forward and backward of its layers. What it reads of earlier segments is an input
// "over:<value>", what later ones read of it an output of that name; the gradient of the one is an output
// "back:<value>", that of the other an input. A value that is read several segments later travels through
// those between. A parameter that two segments read has a gradient of each of them.
//
// The arithmetic follows from the cuts alone: whoever computes which segments gets the same bits.
#pragma once

#include <string>
#include <vector>

#include "trireme/parallel/segment/layer_list.h"

namespace trireme::parallel {

// A value that is made in one segment and read in later ones.
struct Crossing {
  std::string name;  // "over:" and the node
  TensorType type;
  std::int32_t from = 0, last = 0;  // segments: that makes it, and the last that reads it
  std::vector<std::int32_t> readers;
  bool comes_back = false;   // it has a gradient
  std::string back() const;  // the gradient's name
};

struct Segment {
  graph::Graph graph;
  std::vector<std::string> forward, backward, weights;  // outputs: by the phase in which they are made
};

struct SegmentedModel {
  std::vector<Segment> segments;
  std::vector<Crossing> crossings;  // by who makes them, then by name
  // Those between segment `at` and the next.
  std::vector<const Crossing*> between(std::int32_t at) const;
};

struct SegmentRequest {
  const graph::Graph* forward =
      nullptr;                        // outputs "loss", "correct", "stat:...", or what an evaluation needs
  const LayerList* layers = nullptr;  // of it
  Cuts cuts;
  std::vector<std::string> trained = {};  // parameters that get a gradient "grad:..."; none: forward only
  bool scales_loss = false;               // by an input "loss_scale", by which gradients are divided again
  bool gathers_outputs = false;           // forward only: the last segment has all outputs
};
Result<SegmentedModel> cut_model(const SegmentRequest& request);

}  // namespace trireme::parallel
