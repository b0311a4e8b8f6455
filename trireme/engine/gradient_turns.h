// GradientTurns: buckets whose gradients use memory in turn (Prepared::places). Backward waits before it
// writes a bucket until those that lay there before have been applied.
#pragma once

#include <vector>

#include "trireme/engine/shard_runs.h"
#include "trireme/prepare/prepared.h"

namespace trireme::engine {

// On the loop of one Runtime; what it is made of outlives it.
class GradientTurns {
 public:
  GradientTurns(const prepare::GradientPlaces& places, const ShardRuns& runs)
      : places_(places), runs_(runs), applied_(places.after.size(), false) {}

  bool take_turns() const { return places_.num_elems > 0; }
  // A step begins; everything of the one before has been applied.
  void begin() { applied_.assign(applied_.size(), false); }
  // Nobody, and no other rank, reads the gradients of a bucket any more.
  void applied(std::size_t bucket);
  // The step fails: what is written does not matter.
  void open_all();

 private:
  void open(std::size_t bucket) const { runs_.open(static_cast<std::size_t>(places_.gates[bucket])); }

  const prepare::GradientPlaces& places_;
  const ShardRuns& runs_;
  std::vector<bool> applied_;
};

}  // namespace trireme::engine
