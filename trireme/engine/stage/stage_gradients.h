// StageGradients: where the segments of a stage write their gradients, micro-batch after micro-batch.
//
// A dense sum adds them as they come (comm::SegmentSum). Encoders keep something of each micro-batch, so
// their sums have a vector for each, into which what backward wrote is copied.
//
// Where shards are dealt out (Prepared::deals_shards) all of a stage's segments write in memory that they use
// in turn, and what was written is divided among the replicas while other phases compute: one segment after
// the other, in the order of the timetable, which is the same on all replicas.
//
// Where a step has several batches, a micro-batch of each batch stands at every place. They are added in the
// order of the batches, into a vector per place, and sums get what that came to with the last batch: so the
// bits are those of shards that run side by side (ShardRuns), on any number of replicas. Shards are not dealt
// out then.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "trireme/engine/bucket_sums.h"
#include "trireme/prepare/stages.h"
#include "trireme/runtime/sync.h"

namespace trireme::engine {

// On the loop of one Runtime, which outlives it, as do plan and sums.
class StageGradients {
 public:
  // `on_done`: the gradients of a segment are there, of all micro-batches of this rank.
  StageGradients(runtime::Runtime& rt, const prepare::Prepared& prepared, const BucketSums& sums,
                 std::function<void(std::int32_t segment)> on_done)
      : rt_(rt), prepared_(prepared), sums_(sums), on_done_(std::move(on_done)) {}

  // For what backward writes. Again when the sums have other shards. `batch_sums`: places whose batches are
  // added up; 0: steps have one batch.
  Status make(std::size_t batch_sums);
  // Where a segment writes the gradients and statistics of a bucket.
  Tensor written(std::size_t bucket, std::int32_t segment) const;
  // A step begins.
  void begin() { waited_ = 0; }
  // Before a segment writes: what was written there before has been divided.
  runtime::Task<Status> make_room(const prepare::StageSegment& segment);
  // A micro-batch of a step.
  struct Place {
    std::uint32_t step = 0;
    std::size_t number = 0;                      // in its batch
    bool first_batch = true, last_batch = true;  // of the step
    bool is_last = false;                        // its segment is done then
  };
  // It has gone back through the segment.
  runtime::Task<Status> add(const exec::Execution& execution, const prepare::StageSegment& segment,
                            Place place);
  // Nothing is on its way. Bounded by the group.
  runtime::Task<Status> drained();
  TimeNs waited_ns() const { return waited_; }  // since begin()

 private:
  Status collect(const exec::Execution& execution, const prepare::StageSegment& segment, std::size_t bucket,
                 const Tensor& into) const;
  runtime::Task<void> keep(std::size_t bucket, std::size_t place);
  struct Added {
    const prepare::StageSegment* segment = nullptr;
    Place place;
  };
  runtime::Task<Status> divide(const Added& added);
  runtime::Task<void> divide_all();
  bool is_written(int turn) const;  // and not divided yet
  runtime::Task<void> wait_for_an_end();
  runtime::Task<void> add_batch(std::size_t bucket, std::int32_t segment, Place place);

  runtime::Runtime& rt_;
  const prepare::Prepared& prepared_;
  const BucketSums& sums_;
  const std::function<void(std::int32_t segment)> on_done_;
  std::vector<Tensor> written_;  // per bucket that is not added as micro-batches come
  std::deque<Added> leaving_;    // the first one is on its way
  Status failure_;
  TimeNs waited_ = 0;
  std::unique_ptr<runtime::OneShot<bool>> ended_;  // while somebody waits
  // Per bucket and segment, per place: of the batches before.
  std::map<std::pair<std::size_t, std::int32_t>, std::vector<Tensor>> batch_sums_;
};

}  // namespace trireme::engine
