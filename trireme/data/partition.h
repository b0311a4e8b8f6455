// Which training samples a worker may see, where each worker keeps its own part (`data.partition`): the cuts
// of federated and of decentralised training. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/data/dataset.h"

namespace trireme::data {

enum class Partition : std::uint8_t {
  kRandom,   // equal parts of a shuffled order: every worker sees every class
  kByClass,  // equal parts of the order by class: each sees as few classes as can be
};
Result<Partition> parse_partition(std::string_view name);  // "random" or "by-class"

// Ids of the training samples of `worker`, ascending: a function of (set, seed, workers, worker). The parts
// of all workers are disjoint, cover the set and differ by at most one in size. Where a class is cut in two,
// the seed says where. kInvalid: no such worker, or by-class without labels.
Result<std::vector<std::int64_t>> partition_samples(const Dataset& set, Partition partition,
                                                    std::uint64_t seed, std::int64_t workers,
                                                    std::int64_t worker);

}  // namespace trireme::data
