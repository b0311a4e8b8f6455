// SampleOrder: which training samples a logical shard of a batch holds. A function of the job, the data and
// (epoch, batch, shard), never of the number of workers.
//
// `data.partition`: random: batches are cut from one order of all samples, new for every epoch. by-class:
// every logical shard has a part of the samples of its own, as few classes as can be, and an order of its
// own.
#pragma once

#include "trireme/data/order.h"
#include "trireme/data/partition.h"
#include "trireme/job/job.h"

namespace trireme::job {

class SampleOrder {
 public:
  // `fill_tails`: where a shard is short, real samples of weight 0 instead of padding, for models whose
  // statistics are over the shard.
  static Result<SampleOrder> make(const data::Dataset& data, const Job& job, std::int32_t num_shards,
                                  bool fill_tails);

  std::int64_t batches_per_epoch() const;
  std::int64_t samples_in_batch(std::int64_t batch_in_epoch) const;
  std::int64_t shard_batch() const { return cut_.shard_batch(); }
  // shard_batch() ids; those from num_valid on have weight 0.
  data::ShardSamples shard(std::int64_t epoch, std::int64_t batch_in_epoch, std::int32_t shard) const;

 private:
  data::BatchCut cut_;
  std::uint64_t seed_ = 0;
  bool fill_tails_ = false;
  std::vector<std::vector<std::int64_t>> parts_;  // by-class: ids per shard
};

}  // namespace trireme::job
