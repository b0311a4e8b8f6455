#include "trireme/job/sample_order.h"

#include <algorithm>

#include "trireme/base/rng.h"

namespace trireme::job {

Result<SampleOrder> SampleOrder::make(const data::Dataset& data, const Job& job, std::int32_t num_shards,
                                      bool fill_tails) {
  SampleOrder order;
  order.cut_ = {data.num_train, job.train.batch, num_shards};
  order.seed_ = static_cast<std::uint64_t>(job.train.seed);
  order.fill_tails_ = fill_tails;
  TR_ASSIGN_OR_RETURN(const data::Partition partition, data::parse_partition(job.data.partition));
  if (partition == data::Partition::kRandom) return order;
  for (std::int32_t s = 0; s < num_shards; ++s) {
    TR_ASSIGN_OR_RETURN(std::vector<std::int64_t> ids,
                        data::partition_samples(data, partition, order.seed_, num_shards, s));
    order.parts_.push_back(std::move(ids));
  }
  return order;
}

std::int64_t SampleOrder::batches_per_epoch() const {
  if (parts_.empty()) return cut_.steps_per_epoch();
  std::size_t longest = 0;
  for (const auto& part : parts_) longest = std::max(longest, part.size());
  return (static_cast<std::int64_t>(longest) + shard_batch() - 1) / shard_batch();
}

std::int64_t SampleOrder::samples_in_batch(std::int64_t batch_in_epoch) const {
  if (parts_.empty()) return cut_.samples_in_step(batch_in_epoch);
  std::int64_t count = 0;
  for (const auto& part : parts_)
    count += std::clamp<std::int64_t>(static_cast<std::int64_t>(part.size()) - batch_in_epoch * shard_batch(),
                                      0, shard_batch());
  return count;
}

data::ShardSamples SampleOrder::shard(std::int64_t epoch, std::int64_t batch_in_epoch,
                                      std::int32_t shard) const {
  data::ShardSamples samples;
  std::uint64_t seed = seed_;
  std::int64_t total = cut_.num_samples;
  const std::vector<std::int64_t>* part = nullptr;
  if (parts_.empty()) {
    samples = data::samples_of_shard(cut_, seed_, epoch, batch_in_epoch, shard);
  } else {
    part = &parts_[static_cast<std::size_t>(shard)];
    total = static_cast<std::int64_t>(part->size());
    seed = mix_key(seed_, static_cast<std::uint64_t>(shard) + 1);
    samples.ids.assign(static_cast<std::size_t>(shard_batch()), -1);
    for (std::int64_t i = batch_in_epoch * shard_batch(); i < total && samples.num_valid < shard_batch(); ++i)
      samples.ids[static_cast<std::size_t>(samples.num_valid++)] =
          (*part)[static_cast<std::size_t>(data::sample_at(seed, epoch, total, i))];
  }
  if (!fill_tails_ || total == 0) return samples;
  // From the beginning of the epoch's order on.
  for (auto i = static_cast<std::size_t>(samples.num_valid); i < samples.ids.size(); ++i) {
    const std::int64_t at = data::sample_at(seed, epoch, total, static_cast<std::int64_t>(i) % total);
    samples.ids[i] = part != nullptr ? (*part)[static_cast<std::size_t>(at)] : at;
  }
  return samples;
}

}  // namespace trireme::job
