// ShardRuns: the graphs of this rank's logical shards, each with memory of its own, run together.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "trireme/engine/bucket_sums.h"
#include "trireme/engine/loss_watch.h"
#include "trireme/engine/weights.h"
#include "trireme/prepare/batch.h"

namespace trireme::engine {

struct ShardRunsOptions {
  const prepare::Prepared* prepared = nullptr;
  const GpuSide* gpu = nullptr;
  Weights* weights = nullptr;
  const BucketSums* sums = nullptr;
  LossWatch* loss = nullptr;
  exec::HostOps host_ops = {};
  bool profile = false;
  bool several_batches = false;  // a step may have them: their gradients are added up
  // The shard at a place has come to a notice of the graph.
  std::function<void(std::size_t place, int notice, const std::shared_ptr<Event>& point)> on_notice;
  std::function<void()> on_held = {};  // a shard cannot go on until gates open; empty: nobody asks
};

// On the loop of one Runtime; all that the options point to outlives it.
class ShardRuns {
 public:
  ShardRuns(runtime::Runtime& rt, ShardRunsOptions options) : rt_(rt), o_(std::move(options)) {}

  // The shards of a run, after the sums have taken them. Places whose memory is where it was keep their
  // graphs.
  Status take_shards(collective::LeafRun run);
  std::size_t size() const { return shards_.size(); }
  std::int32_t shard_at(std::size_t place) const { return shards_[place].index; }

  // `number` of the run, for the collectives and messages in the graph.
  runtime::Task<Status> run(std::size_t place, std::uint64_t number, const prepare::BatchTensors& batch,
                            std::span<const std::size_t> open);
  // With full overlap: layers wait until their bucket is open. Other gates are opened by number.
  void open(std::size_t gate) const;
  void cancel(const Status& status) const;
  // Keeps the sum of the batches of a step: in batch order, so the bits are the same everywhere. After the
  // last one it is where backward writes.
  runtime::Task<void> add_batch(bool first, bool last);
  TimeNs held_ns() const;  // the longest that one of them waited for buckets
  TimeNs met_ns() const;   // the longest that one of them stood in exchanges of its graph
  std::vector<exec::Profile> profiles() const;

 private:
  struct Shard {
    std::int32_t index = 0;  // logical shard
    std::unique_ptr<exec::Execution> execution;
    std::vector<Tensor> memory;  // per bucket: where backward writes
    std::vector<Tensor> sums;    // of the batches before, where steps have several
  };
  Result<Shard> make_shard(std::size_t place) const;
  Status bind(std::size_t bucket, const Tensor& memory, std::map<std::string, Tensor>& bindings) const;
  Status make_execution(std::size_t place, Shard& shard) const;

  runtime::Runtime& rt_;
  const ShardRunsOptions o_;
  std::vector<Shard> shards_;
};

}  // namespace trireme::engine
