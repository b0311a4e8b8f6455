// PlaceRuns: the graphs of a step of one rank, run again and again on synthetic tensors, with the time of
// each node.
//
// As in a step, all its graphs follow each other, so a node finds in the caches what the nodes before it have
// left there. Where the model is cut in its depth, two micro-batches take turns, each with memory of its own.
// Host ops (collectives and messages) take no time: they copy.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/exec/executor.h"
#include "trireme/prepare/prepared.h"

namespace trireme::measure {

enum class GraphsOf : std::uint8_t { kTraining, kEvaluation };

// The different nodes of a rank, by their keys; what passes between strands is not among them.
std::map<std::string, cost::NodeWork> nodes_of(const prepare::Prepared& prepared, GraphsOf which);

class PlaceRuns {
 public:
  virtual ~PlaceRuns() = default;
  // All graphs once. Seconds of a call per key, the mean of equal nodes.
  virtual runtime::Task<Result<std::map<std::string, double>>> run() = 0;
};
// On the loop of `rt`, whose compute threads are those of a shard. `prepared` outlives it.
Result<std::unique_ptr<PlaceRuns>> make_place_runs(runtime::Runtime& rt, const prepare::Prepared& prepared,
                                                   GraphsOf which);

}  // namespace trireme::measure
