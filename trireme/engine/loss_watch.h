// LossWatch: how a replica learns what its shards' losses are.
//
// Loss and correct count are written by the graph, for the vote of the step. A loss that is not a number is
// noticed before any gradient of its shard is final: no bucket leaves then, so no rank can finish a sum of
// the step and all weights stay as they are.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/engine/gpu_side.h"
#include "trireme/engine/vote/vote.h"
#include "trireme/prepare/prepared.h"

namespace trireme::engine {

// On the loop of one Runtime. The one for the host, for a GPU that is waited for, or for a queue.
class LossWatch {
 public:
  struct Options {
    const prepare::Prepared* prepared = nullptr;
    const GpuSide* gpu = nullptr;
    Vote* vote = nullptr;  // what is learned goes there
    bool skips = false;    // a loss that is not a number is not looked for
    // Loss and correct count of the shard at a place are there, and numbers unless they are not looked for.
    std::function<void(std::size_t place)> on_known;
  };
  static std::unique_ptr<LossWatch> make(runtime::Runtime& rt, Options options);
  virtual ~LossWatch() = default;

  // Where the graph of the shard at that place writes: outputs "loss" and "correct".
  virtual Status bind(std::size_t place, std::map<std::string, Tensor>& bindings) = 0;
  // A batch of a step, before its shards run.
  void begin_batch(std::size_t num_shards);
  // The graph of a shard has come to a notice; `point`: of a queue.
  virtual Status on_notice(std::size_t place, int notice, const std::shared_ptr<Event>& point) = 0;
  // Its run has ended: the loss is looked at, if that is still to be done.
  virtual runtime::Task<Status> on_end(std::size_t place) = 0;

  int broken_place() const { return broken_; }  // of a shard whose loss is not a number; -1: none

 protected:
  LossWatch(runtime::Runtime& rt, Options options) : rt_(rt), o_(std::move(options)) {}

  // The loss of the shard is where the vote has it.
  void look(std::size_t place);
  // So is the correct count: looks at the loss and, where no shard's is broken, tells, once.
  void know(std::size_t place);
  bool is_known(std::size_t place) const { return known_[place]; }
  std::size_t num_shards() const { return known_.size(); }
  virtual void forget() {}  // what was noticed of the batch before

  runtime::Runtime& rt_;
  const Options o_;

 private:
  std::vector<bool> known_;
  int broken_ = -1;
};

}  // namespace trireme::engine
