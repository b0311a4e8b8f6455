// PushPull: the worker's side of the rules that differ in what their servers do with a push and in when they
// answer a pull (server/consistency): bsp-server, ssp, staleness-aware, soft, late.
//
// A step t of clock c computes the gradient at the weights it read; every bucket is pushed the moment it is
// final, and since nobody reads its weights any more in this step, the pull for clock c + 1 goes out at once,
// straight into the weights: it overlaps with the rest of the backward pass. The next step begins when the
// pulls are answered. Letters of one worker to one server keep their order, so what a worker reads contains
// what it wrote (read-my-writes).
#pragma once

#include "trireme/agree/mechanism/server_link.h"

namespace trireme::agree {

struct PushPullOptions {
  float scale = 1;  // of a push
  // What the report's staleness counts at a read.
  enum class Staleness : std::uint8_t {
    kClocks,   // how far the slowest worker's pushes are behind this worker's
    kOthers,   // updates by others between the read and the push that was computed on it
    kUpdates,  // the same where a push may wait for others: all updates between two reads
    kSkipped,  // clocks that closed without this worker
  } staleness = Staleness::kClocks;
  bool jumps = false;  // a worker that is late goes on with the clock that is open
};

std::unique_ptr<Agreement> make_push_pull(const RuleContext& context, const PushPullOptions& options);

}  // namespace trireme::agree
