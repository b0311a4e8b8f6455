// Votes: the votes of a run, step after step (vote.h).
//
// In lock step a step waits for its own vote. Where steps of stages overlap (pipelines that never drain) the
// last stage is some steps ahead of the first: nobody waits for a vote before so many steps later, and what
// ranks decide together holds from then on, on all of them from the same step.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trireme/engine/vote/vote.h"
#include "trireme/runtime/sync.h"

namespace trireme::engine {

// On the loop of one Runtime.
class Votes {
 public:
  using Make = std::function<std::unique_ptr<Vote>(plan::Slot slot)>;
  // `lag`: steps after which a vote is waited for, at most plan::kMostVotes - 1.
  Votes(runtime::Runtime& rt, const Make& make, int lag);

  bool lag() const { return votes_.size() > 1; }
  Vote& of(std::int64_t step) const;
  Status take_shards(collective::LeafRun run);
  std::size_t num_shards() const { return votes_[0]->num_shards(); }

  // Ends when the outcome is known, or, with a lag, at once.
  runtime::Task<Status> cast(StepInput step, std::vector<collective::LeafRun> owners);
  // With a lag: the outcomes of the steps up to `last` that have not been told yet, in order.
  runtime::Task<Status> wait_until(std::int64_t last, std::vector<StepResult>& results);
  // The same for those that somebody waits for at the end of a step.
  runtime::Task<Status> wait_behind(std::int64_t step, std::vector<StepResult>& results);
  // All of them.
  runtime::Task<Status> wait_for_all(std::vector<StepResult>& results);
  // Nothing is under way. After a failure votes end with the group's verdict.
  runtime::Task<void> drained();

 private:
  runtime::Task<void> run(StepInput step, std::vector<collective::LeafRun> owners);
  runtime::Task<void> wait_for_an_end();

  runtime::Runtime& rt_;
  std::vector<std::unique_ptr<Vote>> votes_;
  std::vector<bool> known_;             // per vote
  std::int64_t told_ = -1, cast_ = -1;  // steps; -1: none of this run yet
  std::size_t under_way_ = 0;
  Status failure_;
  std::unique_ptr<runtime::OneShot<bool>> ended_;  // while somebody waits
};

}  // namespace trireme::engine
