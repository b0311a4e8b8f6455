// SegmentWeights: brings the weights of a stage's segments together, of which every replica has a part
// (parallel.zero = 3), for the graphs that read them.
//
// A stage runs graphs one after the other, and knows before which weights each of them reads. While one runs,
// what the next one reads is on its way; what that one does not read is given back. All replicas of a stage
// have the same list, so they make the same gathers in the same order.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "trireme/engine/weight_gathers.h"
#include "trireme/prepare/stage_weights.h"

namespace trireme::engine {

// On the loop of one Runtime, which outlives it, as do the gathers.
class SegmentWeights {
 public:
  enum class Of : std::uint8_t { kSteps, kEvaluations };
  SegmentWeights(runtime::Runtime& rt, WeightGathers& gathers, Of of) : rt_(rt), gathers_(gathers), of_(of) {}

  // What the graphs read that a step or an evaluation runs. While nothing is under way.
  void set_uses(prepare::WeightUses uses) { uses_ = std::move(uses); }
  // A step or an evaluation begins, or, where the list is of one batch of several, the next one of its step.
  // Nothing is here before.
  void begin(std::uint32_t step, bool first_batch = true);
  // Before each of them runs, in order; ends when what it reads is here, or with the group's verdict.
  runtime::Task<Status> take();
  // It has run.
  void give_back();
  // Nothing is under way. Bounded by the group.
  runtime::Task<void> drained();
  TimeNs waited_ns() const { return waited_; }  // since begin()

 private:
  enum class State : std::uint8_t { kAway, kComing, kHere };
  void ask(std::size_t use);
  runtime::Task<void> bring(std::size_t bucket, std::uint16_t number);
  runtime::Task<void> wait_for_an_end();

  runtime::Runtime& rt_;
  WeightGathers& gathers_;
  const Of of_;
  prepare::WeightUses uses_;
  std::uint32_t step_ = 0;
  std::size_t now_ = 0;        // of uses_
  std::vector<State> states_;  // per bucket
  std::uint16_t number_ = 0;   // of the next gather
  std::size_t under_way_ = 0;
  TimeNs waited_ = 0;
  Status failure_;
  std::unique_ptr<runtime::OneShot<bool>> ended_;  // while somebody waits
};

}  // namespace trireme::engine
