// Graphs of stages that only go forward: values come from the stage before and go to the next one by messages
// of the graph itself, so whoever runs such graphs knows nothing of stages. Pure.
#pragma once

#include "trireme/parallel/segment/segments.h"

namespace trireme::parallel {

// The stages of a model, each a segment of `model`, and the slots of their messages.
struct StageMessages {
  const SegmentedModel* model = nullptr;
  std::int64_t first_slot = 0, num_slots = 0;
};
// `part`: the graph of a stage, or a tile of it in which what crosses is whole. Its inputs "over:..." are
// received along the stage axis, and outputs "sent:..." are there when what later stages need has left; a
// value that passes through is received and sent. The messages of stages that are neighbors and of values
// that cross their border have the same slot; others differ. kExhausted: there are too few slots.
Result<graph::Graph> add_messages(const graph::Graph& part, const StageMessages& messages,
                                  std::int32_t stage);

}  // namespace trireme::parallel
