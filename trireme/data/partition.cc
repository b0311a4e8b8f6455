#include "trireme/data/partition.h"

#include <algorithm>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"

namespace trireme::data {

Result<Partition> parse_partition(std::string_view name) {
  if (name == "random") return Partition::kRandom;
  if (name == "by-class") return Partition::kByClass;
  return error(Code::kInvalid, "[data] partition: got '{}', expected random or by-class", name);
}

Result<std::vector<std::int64_t>> partition_samples(const Dataset& set, Partition partition,
                                                    std::uint64_t seed, std::int64_t workers,
                                                    std::int64_t worker) {
  if (workers < 1 || worker < 0 || worker >= workers)
    return error(Code::kInvalid, "[data] partition: worker {} of {}", worker, workers);
  if (partition == Partition::kByClass && set.label_kind != Labels::kClass)
    return error(Code::kInvalid, "[data] partition by-class: {} has no classes; take random", set.name);
  const std::uint64_t key = mix_key(seed, hash_text("partition"));
  const auto n = static_cast<std::uint64_t>(set.num_train);
  std::vector<std::int64_t> order(static_cast<std::size_t>(set.num_train));
  for (std::uint64_t i = 0; i < n; ++i) order[i] = static_cast<std::int64_t>(permute_index(key, n, i));
  if (partition == Partition::kByClass)
    std::ranges::stable_sort(order, {}, [&](std::int64_t id) { return set.label_of(id); });
  const auto begin = order.begin() + set.num_train * worker / workers;
  const auto end = order.begin() + set.num_train * (worker + 1) / workers;
  std::vector<std::int64_t> ids(begin, end);
  std::ranges::sort(ids);
  return ids;
}

}  // namespace trireme::data
