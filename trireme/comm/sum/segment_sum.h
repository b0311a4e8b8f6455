// SegmentSum: the gradients of a bucket of one or several segments of a model that is cut in its depth.
//
// Shards come one after the other, as micro-batches do, and are added as they come, along the fixed tree over
// shards, like the digits of a binary counter: a worker holds log2 of its shards and two vectors more, not
// one vector per shard, and the bits are those of any other way along that tree. Where several segments read
// the same parameters each of them has a sum of its own, over all shards; they are then added in the order of
// the segments, wherever they are computed.
#pragma once

#include "trireme/comm/sum/gradient_sum.h"

namespace trireme::comm {

struct SegmentSumOptions {
  std::vector<std::int32_t> segments;  // that have gradients of the bucket, ascending
  std::vector<int> stages;             // of each of them: who has it, in `line`
  Group* line = nullptr;               // along the stage axis; null: all segments are here
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
  // The shard's vector of that segment is there; shards come in order, each once a step.
  runtime::Task<void> add(std::int32_t segment);
  runtime::Task<Status> sum(SumCall call) override;
  Tensor result() const override;

 private:
  struct OfSegment {
    std::int32_t segment = 0;
    Tensor work;
    std::vector<Tensor> vectors;
    std::size_t added = 0;
  };
  OfSegment& find(std::int32_t segment);
  std::vector<Tensor> partials_of(const OfSegment& own) const;
  runtime::Task<Status> sum_over_shards(SumCall call, std::size_t own);
  runtime::Task<Status> sum_over_segments(SumCall call);

  runtime::Runtime& rt_;
  Group& group_;
  const SumSpec spec_;
  const SegmentSumOptions o_;
  Counter counter_;
  std::vector<OfSegment> of_;    // of this rank
  std::vector<Tensor> distant_;  // per segment of o_: of other ranks
  Tensor all_;                   // of several segments
};

}  // namespace trireme::comm
