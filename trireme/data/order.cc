#include "trireme/data/order.h"

#include <algorithm>

#include "trireme/base/check.h"
#include "trireme/base/hash.h"
#include "trireme/base/rng.h"

namespace trireme::data {

std::int64_t BatchCut::samples_in_step(std::int64_t step_in_epoch) const {
  return std::clamp<std::int64_t>(num_samples - step_in_epoch * batch, 0, batch);
}

std::int64_t sample_at(std::uint64_t seed, std::int64_t epoch, std::int64_t num_samples,
                       std::int64_t position) {
  const std::uint64_t key = mix_key(seed, hash_text("sample order"), static_cast<std::uint64_t>(epoch));
  return static_cast<std::int64_t>(
      permute_index(key, static_cast<std::uint64_t>(num_samples), static_cast<std::uint64_t>(position)));
}

ShardSamples samples_of_shard(const BatchCut& cut, std::uint64_t seed, std::int64_t epoch,
                              std::int64_t step_in_epoch, std::int32_t shard) {
  TR_CHECK(shard >= 0 && shard < cut.num_shards, "shard {} of {}", shard, cut.num_shards);
  const std::int64_t size = cut.shard_batch();
  const std::int64_t begin = shard * size;
  const std::int64_t end = std::min(begin + size, cut.samples_in_step(step_in_epoch));
  ShardSamples samples;
  samples.ids.assign(static_cast<std::size_t>(size), -1);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t position = step_in_epoch * cut.batch + i;
    samples.ids[static_cast<std::size_t>(samples.num_valid++)] =
        sample_at(seed, epoch, cut.num_samples, position);
  }
  return samples;
}

}  // namespace trireme::data
