// Which samples make up a logical shard of a global batch. Pure: a function of (seed, epoch, step, shard)
// alone, never of the number of workers.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::data {

// How an epoch is cut: steps of `batch` samples (the last one shorter), each in `num_shards` equal logical
// shards of shard_batch() samples; a short one is padded.
struct BatchCut {
  std::int64_t num_samples = 0;
  std::int64_t batch = 1;
  std::int32_t num_shards = 1;

  std::int64_t shard_batch() const { return (batch + num_shards - 1) / num_shards; }
  std::int64_t steps_per_epoch() const { return (num_samples + batch - 1) / batch; }
  // Samples of step `step` of an epoch: `batch`, or fewer in the last step.
  std::int64_t samples_in_step(std::int64_t step_in_epoch) const;
};

// The sample at `position` of epoch `epoch`: a keyed permutation, new for every epoch.
std::int64_t sample_at(std::uint64_t seed, std::int64_t epoch, std::int64_t num_samples,
                       std::int64_t position);

// Sample ids of one logical shard; padding is -1 and always at the end.
struct ShardSamples {
  std::vector<std::int64_t> ids;  // shard_batch() of them
  std::int64_t num_valid = 0;
};
ShardSamples samples_of_shard(const BatchCut& cut, std::uint64_t seed, std::int64_t epoch,
                              std::int64_t step_in_epoch, std::int32_t shard);

}  // namespace trireme::data
