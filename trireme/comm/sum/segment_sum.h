// SegmentSum: the gradients of a bucket of one or several segments of a model that is cut in its depth.
//
// Shards come one after the other, as micro-batches do, and are added as they come, along the fixed tree over
// shards, like the digits of a binary counter: a worker holds log2 of its shards and two vectors more, not
// one vector per shard, and the bits are those of any other way along that tree. Where several segments read
// the same parameters each of them has a sum of its own, over all shards; they are then added in the order of
// the segments, wherever they are computed.
//
// Dealt out by turns, shard k * W + w is the k-th of worker w of W, a power of two. The k-th ones of all
// workers are then a subtree, so a shard's vector is divided as soon as it is there: a worker gets the
// subtree's sum of its own chunk, counts these, and has no whole vector but the one that is written.
#pragma once

#include "trireme/comm/sum/gradient_sum.h"

namespace trireme::comm {

struct SegmentSumOptions {
  std::vector<std::int32_t> segments;  // that have gradients of the bucket, ascending
  std::vector<int> stages;             // of each of them: who has it, in `line`
  Group* line = nullptr;               // along the stage axis; null: all segments are here
  // Shards are dealt out by turns, and sums are scattered. Then backward writes in SumSpec::vectors_in, from
  // these elements on: one per segment of this rank.
  bool dealt = false;
  std::vector<std::int64_t> written_at = {};
};

// What happens when a shard's vector is there: `from` is added to `to`, or copied there. -1: the vector that
// backward writes.
struct CounterStep {
  bool adds = false;
  std::int32_t from = -1, to = 0;
};
struct Counter {
  std::vector<std::vector<CounterStep>> after;  // per shard of the run
  std::vector<std::int32_t> partials;           // per maximal subtree, the vector that has its sum
  std::int32_t num_vectors = 0;
};
Counter count_up(collective::LeafRun run, std::int32_t num_shards);

class SegmentSum final : public GradientSum {
 public:
  SegmentSum(runtime::Runtime& rt, Group& group, SumSpec spec, SegmentSumOptions options);

  Status take_shards(collective::LeafRun run) override;
  // The first segment of this rank has it, for any place.
  Tensor memory(std::size_t /*place*/) const override { return of_[0].work; }
  Tensor memory_of(std::int32_t segment);
  // The shard's vector of that segment is there; shards come in order, each once a step. When it ends the
  // vector may be written again. Dealt out: all workers call it in the same order.
  runtime::Task<Status> add(std::int32_t segment, std::uint32_t step);
  runtime::Task<Status> sum(SumCall call) override;
  Tensor result() const override;
  Tensor summed(std::int64_t offset, const TensorType& type) const override;

 private:
  struct OfSegment {
    std::int32_t segment = 0;
    Tensor work;
    std::vector<Tensor> vectors;
    std::size_t added = 0;
  };
  std::size_t find(std::int32_t segment) const;
  std::int64_t rest() const { return spec_.num_elems - spec_.scattered; }
  // A counter's vectors. Dealt out they have the own chunk, and behind it what is not divided.
  std::int64_t vector_elems() const { return o_.dealt ? own_.size() + rest() : spec_.num_elems; }
  Status take_written();
  void run_step(const CounterStep& step, const OfSegment& own) const;
  runtime::Task<Status> divide(const OfSegment& own, Call call);
  std::vector<Tensor> partials_of(const OfSegment& own) const;
  runtime::Task<Status> sum_over_shards(SumCall call, std::size_t own);
  runtime::Task<Status> sum_over_segments(SumCall call);

  runtime::Runtime& rt_;
  Group& group_;
  const SumSpec spec_;
  const SegmentSumOptions o_;
  const Chunk own_;  // dealt out: what of the vector is this worker's
  Counter counter_;
  std::vector<OfSegment> of_;    // of this rank
  std::vector<Tensor> distant_;  // per segment of o_: of other ranks
  Tensor all_;                   // of several segments
};

}  // namespace trireme::comm
