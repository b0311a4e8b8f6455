// Tiles: the graphs of a model cut over the positions of the model axis, and what a position has of its
// variables. A plan with one tile has the graphs as they are.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/parallel/shard/chunk.h"
#include "trireme/parallel/shard/style.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

// How a model is cut, before a plan has it.
struct Tiling {
  std::int32_t tiles = 1;
  std::map<std::string, op::AxisCut> cuts = {};  // of the variables of the train graph
  parallel::StoredOptions train = {}, eval = {};
  double seconds = 0, bytes = 0;  // of the exchanges of a shard's train graph
};

struct TilingRequest {
  std::int32_t tiles = 1;
  std::int64_t shard_batch = 1, eval_batch = 1;
  parallel::AxisCosts costs;
};
// What layouts are chosen by: `measured`, or prices that are the same everywhere where the job fixes its
// tiles. Then the layouts, and with them the bits, follow from the job alone, whatever connects the workers.
parallel::AxisCosts prices_of_choice(const job::Job& job, const parallel::AxisCosts& measured);
// Whether the model can be cut as the job asks, before anything is started. kInvalid as choose_tiling.
Status check_tiling(const job::Job& job, const model::ModelInput& input);
// By the style and the pins of the job, the rest by price. kInvalid names the tensor that cannot lie as asked
// for.
Result<Tiling> choose_tiling(const job::Job& job, const model::ModelInput& input,
                             const TilingRequest& request);
// Layouts over the mesh of `replicas` and tiles, and the rest, into a plan.
void put_tiling(const Tiling& tiling, int replicas, const Prepared& whole, plan::Plan& plan);

// Types and states of `out` as that tile of the plan has them; what they are parts of is in `wholes`.
Status take_tile(const job::Job& job, int tile, Prepared& out);

// What the job says of the chunks in which activations move between tiles.
parallel::ChunkRequest chunk_request(const job::Job& job);

// The graph of a tile, in the chunks of the job, whose collectives have slots.
Result<graph::Graph> tile_of_train(const job::Job& job, const graph::Graph& whole, const plan::Plan& plan,
                                   int tile);
Result<graph::Graph> tile_of_eval(const job::Job& job, const graph::Graph& whole, const plan::Plan& plan,
                                  int tile);

// The graphs of a segment of a model that is cut in its depth too: values that come from other segments, or
// go there, are whole on every tile.
struct SegmentTiles {
  std::int32_t tiles = 1;
  parallel::AxisCosts costs;
  std::map<std::string, op::AxisCut> cuts = {};  // of the variables; others are whole
};
// How the nodes are cut where variables lie so, by the style and the rest by price.
Result<parallel::StoredOptions> choose_segment(const job::Job& job, const graph::Graph& segment,
                                               const SegmentTiles& over);
// The graph of a tile; the collectives have slots from `slot` on, which becomes the next that is free.
Result<graph::Graph> tile_of_segment(const job::Job& job, const graph::Graph& segment,
                                     const parallel::StoredOptions& stored, const plan::Plan& plan, int tile,
                                     std::int64_t& slot);
// The first slots of train and of evaluation graphs.
std::int64_t first_train_slot();
std::int64_t first_eval_slot();

// Graphs of a trained model, which nobody trains further: an evaluation graph with some of its outputs, cut
// over tiles that need not be those of the run.
struct ForwardTiles {
  std::int32_t tiles = 1;
  parallel::AxisCosts costs;
  std::map<std::string, op::AxisCut> cuts = {};  // of the variables; others are whole
  parallel::ChunkRequest chunks = {};            // chunk_request of the job
};
// What of an evaluation graph these outputs need.
Result<graph::Graph> forward_graph(const graph::Graph& eval, const std::vector<std::string>& outputs);
// How the variables lie: as in the plan of the run, where it has as many tiles; else by the pins and the
// style of the job. A job that names no style is cut as `tensor`: several ranks take a model that is too
// large for one. `eval`: the whole evaluation graph. The plan may be null.
Result<std::map<std::string, op::AxisCut>> choose_forward_cuts(const job::Job& job, const graph::Graph& eval,
                                                               const plan::Plan* plan,
                                                               const ForwardTiles& over);
// How the nodes of a forward graph are cut where variables lie so: as in the plan, where it has as many tiles
// and the same nodes, so that a loss has the bits of the run; else by price.
Result<parallel::StoredOptions> choose_forward(const graph::Graph& forward, const plan::Plan* plan,
                                               const ForwardTiles& over);
Result<graph::Graph> tile_of_forward(const graph::Graph& forward, const parallel::StoredOptions& stored,
                                     const ForwardTiles& over, int tile);

}  // namespace trireme::prepare
