// LossWatch: how a replica learns what its shards' losses are, and what all ranks wish.
//
// Loss and correct count are written by the graph, the wishes by the host; all three are added up over shards
// and ranks in the last bucket. A loss that is not a number is noticed before any gradient of its shard is
// final: no bucket leaves then, so no rank can finish an exchange of the step and all weights stay as they
// are.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/sum/gradient_sum.h"
#include "trireme/engine/gpu_side.h"
#include "trireme/engine/step.h"
#include "trireme/prepare/prepared.h"

namespace trireme::engine {

// On the loop of one Runtime. The one for the host, for a GPU that is waited for, or for a queue.
class LossWatch {
 public:
  // `skips`: a loss that is not a number is not looked for. `last`: the sum of the last bucket.
  static std::unique_ptr<LossWatch> make(runtime::Runtime& rt, const prepare::Prepared& prepared,
                                         const GpuSide& gpu, bool skips, const comm::GradientSum& last);
  virtual ~LossWatch() = default;

  // Where the graph of the shard at that place writes: outputs "loss" and "correct".
  virtual void bind(std::size_t place, std::map<std::string, Tensor>& bindings) = 0;
  void begin_step(const StepInput& input, std::size_t num_shards);
  // The wishes of the step, before its shards run.
  virtual void write_wishes() = 0;
  // The graph of a shard has come to a notice; `point`: of a queue.
  virtual Status on_notice(std::size_t place, int notice, const std::shared_ptr<Event>& point) = 0;
  // Its run has ended: the loss is looked at, if that is still to be done.
  virtual runtime::Task<Status> on_end(std::size_t place) = 0;
  // The last bucket is summed.
  virtual Status on_sum() = 0;
  // What it says; nothing on a phantom Runtime.
  void read(StepOutput& out) const;

  int broken_place() const { return broken_; }  // of a shard whose loss is not a number; -1: none

 protected:
  LossWatch(runtime::Runtime& rt, const prepare::Prepared& prepared, bool skips,
            const comm::GradientSum& last)
      : rt_(rt), prepared_(prepared), skips_(skips), last_(last) {}

  // The third metric: 1 of every rank that wants to stop (fewer than kSaveWish), kSaveWish of rank 0 where it
  // wants to save; added up over the ranks and batches of a step, which f32 does exactly.
  static constexpr float kSaveWish = 131072;
  float wishes(std::size_t place) const;  // of this rank, at its first shard
  // Loss, correct count and wishes in the memory of a last bucket.
  Tensor metrics_in(const Tensor& vector) const;
  void judge(std::size_t place, float loss);
  virtual const float* summed() const = 0;
  virtual void forget() {}  // what was noticed of the step before

  runtime::Runtime& rt_;
  const prepare::Prepared& prepared_;
  const bool skips_;
  const comm::GradientSum& last_;
  std::size_t num_shards_ = 0;

 private:
  StepInput now_;
  int broken_ = -1;
};

}  // namespace trireme::engine
