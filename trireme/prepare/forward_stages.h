// Forward graphs of a trained model over the stages of a mesh, which need not be those of its run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/parallel/segment/segments.h"
#include "trireme/prepare/tiles.h"

namespace trireme::prepare {

struct ForwardStages {
  std::int32_t stages = 1;
  std::vector<std::string> cuts = {};                   // the first layer of every stage but the first
  std::map<std::string, std::vector<int>> places = {};  // by variable: the stages that read it
};
// Stages are runs of the segments of the run's plan where it has as many, else of layers, so that the slowest
// is fast. `eval`: the whole evaluation graph; the plan may be null. The same on every rank. kInvalid: the
// model has fewer layers.
Result<ForwardStages> choose_forward_stages(const graph::Graph& eval, const plan::Plan* plan,
                                            std::int32_t stages);
// A forward graph as these stages have it. The last one has its outputs.
Result<parallel::SegmentedModel> cut_forward(const graph::Graph& forward, const ForwardStages& over);
// The graph of a stage, or of a tile of it, with messages to its neighbors.
Result<graph::Graph> join_stages(const graph::Graph& part, const parallel::SegmentedModel& model,
                                 std::int32_t stage);

}  // namespace trireme::prepare
