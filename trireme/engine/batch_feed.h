// BatchFeed: the batches of one rank's logical shards, made ahead of their use.
//
// Batches are numbered over the whole run. A sample that counts has weight 1; the consumer scales weights to
// the step it makes of the batch.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "trireme/collective/schedule.h"
#include "trireme/data/prefetch.h"
#include "trireme/engine/lease_desk.h"
#include "trireme/exec/device_ahead.h"
#include "trireme/job/sample_order.h"
#include "trireme/prepare/batch.h"

namespace trireme::engine {

struct BatchFeedOptions {
  model::ModelInput input;
  std::shared_ptr<const data::Dataset> data;
  job::SampleOrder order;
  collective::LeafRun shards;                // of this rank
  std::int32_t stride = 1;                   // from one of them to the next
  std::uint64_t seed = 0;                    // of augmentation and dropout
  int depth = 2;                             // batches ahead of the one in use
  std::shared_ptr<exec::DeviceAhead> ahead;  // not null: samples go on to a GPU when they are made
};

// A unit to work on; none: this worker is to meet the others after round `round`.
struct Lease {
  std::optional<Unit> unit;
  std::int64_t round = 0;
};
using LeaseSource = std::function<runtime::Task<Result<Lease>>()>;

struct LeasedBatch {
  Lease lease;
  std::int64_t num_samples = 0;  // that count
  std::span<const prepare::BatchTensors> tensors;
};

class BatchFeed {
 public:
  static Result<std::unique_ptr<BatchFeed>> make(runtime::Runtime& rt, BatchFeedOptions options);
  ~BatchFeed();

  // Starts on batches first, first + 1, ... before `end`. Once.
  void start(std::int64_t first, std::int64_t end);
  // The next batch, one entry per shard of this rank; valid until release().
  runtime::Task<Result<std::span<const prepare::BatchTensors>>> next();
  void release();

  // Instead: one shard at a time, each of a unit that `source` gives; it is asked ahead, in order.
  void start(LeaseSource source);
  runtime::Task<Result<LeasedBatch>> next_leased();

  const data::PrefetchCounters& counters() const;
  const job::SampleOrder& order() const;
  std::int64_t num_bytes() const;  // of all batches in memory

 private:
  struct State;
  BatchFeed(runtime::Runtime& rt, std::shared_ptr<State> state);
  runtime::Runtime& rt_;
  std::shared_ptr<State> state_;  // outlives this where a batch is being made
  std::unique_ptr<data::Prefetcher> prefetcher_;
};

}  // namespace trireme::engine
