// StageGradients: where the segments of a stage write their gradients, micro-batch after micro-batch.
//
// A dense sum adds them as they come (comm::SegmentSum). Encoders keep something of each micro-batch, so
// their sums have a vector for each, into which what backward wrote is copied.
#pragma once

#include <vector>

#include "trireme/engine/bucket_sums.h"
#include "trireme/prepare/stages.h"

namespace trireme::engine {

// On the loop of one Runtime, which outlives it, as do plan and sums.
class StageGradients {
 public:
  StageGradients(runtime::Runtime& rt, const prepare::Prepared& prepared, const BucketSums& sums)
      : rt_(rt), prepared_(prepared), sums_(sums) {}

  // For what backward writes. Again when the sums have other shards.
  Status make();
  // Where a segment writes the gradients and statistics of a bucket.
  Tensor written(std::size_t bucket, std::int32_t segment) const;
  // A micro-batch has gone back through the segment; `place` in its step.
  runtime::Task<Status> add(const exec::Execution& execution, const prepare::StageSegment& segment,
                            std::size_t place);

 private:
  Status collect(const exec::Execution& execution, const prepare::StageSegment& segment, std::size_t bucket,
                 const Tensor& into) const;
  runtime::Task<void> keep(std::size_t bucket, std::size_t place);

  runtime::Runtime& rt_;
  const prepare::Prepared& prepared_;
  const BucketSums& sums_;
  std::vector<Tensor> written_;  // per bucket that is not added as micro-batches come
};

}  // namespace trireme::engine
