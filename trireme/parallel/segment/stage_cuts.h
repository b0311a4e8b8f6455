// StageCuts: which pieces of a chain of layers go to which virtual stage of a pipeline, so that a step is
// short and no stage holds more than it may. Pure.
//
// A *piece* is what no cut divides (a layer, or a segment that stages share), a *fence* the place between two
// pieces, and a *turn* what a micro-batch costs a stage that never waits: its computation, or the messages of
// the link behind it in one direction where these take longer.
//
// A programme over fences proposes: cuts whose longest turn is as short as can be, and of those whose longest
// turn is a little longer the ones that send least. It costs O(pieces^2 * stages). A pipeline also fills and
// empties, so the walk over its timetable (pipeline/price.h) decides, and moves single fences for as long as
// the step gets shorter. Where there are few cuts it looks at all of them.
#pragma once

#include <functional>
#include <vector>

#include "trireme/parallel/pipeline/price.h"
#include "trireme/parallel/segment/layer_list.h"

namespace trireme::parallel {

// Bytes that pass a fence for a micro-batch.
struct FenceBytes {
  double forward = 0, back = 0;
};
// Per fence of the layers. A value that is read several layers later passes all fences between; what follows
// from `trained` parameters comes back as a gradient.
std::vector<FenceBytes> fence_bytes(const graph::Graph& forward, const LayerList& list,
                                    std::span<const std::string> trained);

struct PieceBytes {
  std::int64_t held = 0;     // always: parameters, gradients, state
  std::int64_t kept = 0;     // per micro-batch in flight
  std::int64_t scratch = 0;  // while one phase runs: the most of a stage's pieces
  std::int64_t version = 0;  // per older version of its weights
  std::int64_t in_turn = 0;  // in memory that a stage's pieces use in turn, two of them at a time
};

struct StagePieces {
  std::vector<PhaseTimes> seconds;  // per piece, of a micro-batch, at speed 1
  // Per fence, one less than there are pieces: seconds of its messages.
  std::vector<double> activations, gradients;
  std::vector<PieceBytes> bytes;  // per piece; empty: memory is not looked at
  // With them, per fence: what the stage behind it and the one before keep of a micro-batch beside their
  // pieces.
  std::vector<std::int64_t> entering, leaving;

  std::int32_t size() const { return static_cast<std::int32_t>(seconds.size()); }
};

// Runs of pieces along the chain: the first piece of every virtual stage.
using PieceRuns = std::vector<std::int32_t>;

struct StageCutRequest {
  const StagePieces* pieces = nullptr;
  std::vector<double> speeds;           // per virtual stage; empty: all alike
  std::int64_t limit_bytes = 0;         // of a virtual stage
  std::int64_t common_bytes = 0;        // that every one has
  std::vector<std::int64_t> in_flight;  // per virtual stage: micro-batches
  std::vector<std::int64_t> versions;   // likewise, of weights, beside the newest; empty: none
  // A step with these times, by the timetable; what it costs to ask, in actions that are walked over.
  std::function<Result<double>(const TimetableTimes&)> price;
  std::int64_t actions = 1;
};

TimetableTimes times_of_runs(const StageCutRequest& request, const PieceRuns& first);
double longest_turn(const StageCutRequest& request, const PieceRuns& first);
// What the fullest virtual stage holds.
std::int64_t most_bytes(const StageCutRequest& request, const PieceRuns& first);
bool fits(const StageCutRequest& request, const PieceRuns& first);

// The programme: the shortest longest turn of all cuts into `chain` runs that fit; empty: none does. Ties go
// to the earlier fence.
PieceRuns shortest_turns(const StageCutRequest& request, std::int32_t chain);
// The one whose messages take least in all, of the cuts that fit and whose turns take at most `seconds`.
PieceRuns fewest_sends(const StageCutRequest& request, std::int32_t chain, double seconds);
// The one whose fullest stage holds least.
PieceRuns least_bytes(const StageCutRequest& request, std::int32_t chain);

struct StageCutChoice {
  PieceRuns first;
  double seconds = 0;  // of a step; 0: it was not walked over
  bool fits = true;    // false: no cut does; it is that of the least bytes
};
// Stays with `usual` if that fits and no other one makes the step shorter by `least_gain`, a part of it.
// Walks over 2 million actions at most. Where one walk has more, `usual` stays too, or the shortest turns are
// taken if it does not fit.
Result<StageCutChoice> choose_stage_cuts(const StageCutRequest& request, const PieceRuns& usual,
                                         double least_gain);

}  // namespace trireme::parallel
