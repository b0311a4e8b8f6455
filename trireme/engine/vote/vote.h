// Vote: what all ranks decide on together once a step: the loss, the correct count, whether to stop or to
// save, whether all gradients are numbers, and their norm.
//
// Every logical shard is a leaf with a few numbers, added up along the fixed tree over shards: the outcome is
// the same to the bit on every rank and for any number of them. Where the parts of a replica are on several
// ranks, they first add what each of them wishes and has found; the loss they all have. Where a step waits
// for nothing but the loss, ranks vote while backward runs.
#pragma once

#include <array>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/engine/step.h"
#include "trireme/plan/slots.h"

namespace trireme::engine {

struct VoteOutcome {
  double loss = 0, correct = 0;
  bool stop = false, save = false;
  bool finite = true;  // the gradients of all ranks are numbers
  float squares = 0;   // the sum of the squares of all gradients; 0 where nobody asked
};

// On the loop of one Runtime.
class Vote {
 public:
  // `replicas`: the ranks that run the shards, by replica; `parts`: those that hold the parts of this rank's
  // replica, null where it has them all. `alone`: nobody else votes on this rank's steps.
  Vote(runtime::Runtime& rt, comm::Group& replicas, comm::Group* parts, std::int32_t num_shards, bool alone,
       plan::Slot slot = plan::kSlotVote);
  // The model is cut in its depth: one of the parts has the losses, those of the others are zeros, and this
  // rank is one of the tiles of its stage. Before take_shards().
  struct Segments {
    std::int32_t count = 1, tiles = 1;
    int tile = 0;
  };
  void cut_in_depth(Segments segments);
  // The shards were dealt out to the replicas by turns (Prepared::deals_shards). Before take_shards().
  void deal_shards() { dealt_ = true; }

  // Memory for the shards of a run. Places that stay keep theirs.
  Status take_shards(collective::LeafRun run);
  std::size_t num_shards() const { return leaves_.size(); }
  // f32[2]: the loss and the correct count of the shard at a place, written before cast().
  Tensor metrics(std::size_t place) const;
  // Steps of several batches: metrics() are those of one of them. After the last they are their sums.
  void keep_batch(bool first, bool last);
  // Where updates wait for it: what this rank's gradients say, and the squares of each segment. Of a piece
  // that several ranks hold the first holder's squares count.
  void say(bool finite, std::vector<float> squares);
  // All shards' numbers are there. Ends when the outcome is known; fails with the group's verdict.
  runtime::Task<Status> cast(StepInput step, std::vector<collective::LeafRun> owners);
  // What the last cast() came to; nothing on a phantom Runtime.
  const VoteOutcome& outcome() const { return outcome_; }

 private:
  std::size_t num_of_parts() const;
  void add_segments(const float* squares);
  void write_leaves(const StepInput& step);
  runtime::Task<Status> add_parts(const StepInput& step);
  comm::Call call_of(const StepInput& step) const;
  runtime::Task<Status> add_dealt(comm::Call call);
  void read();

  runtime::Runtime& rt_;
  comm::Group& group_;
  comm::Group* const parts_;
  const std::int32_t num_shards_;
  const bool alone_;
  const plan::Slot slot_;
  std::size_t first_of_parts_;  // place in a leaf from which on the ranks of a replica may differ
  std::vector<Tensor> leaves_;  // per shard; the first receives the sum
  Tensor of_parts_;             // what of the leaves differs
  bool dealt_ = false;
  Tensor of_turns_;  // all leaves, where shards are dealt out
  std::vector<std::array<float, 2>> kept_;
  bool finite_ = true;
  std::vector<float> squares_ = {0};  // per segment
  Segments segments_;
  VoteOutcome outcome_;
};

}  // namespace trireme::engine
