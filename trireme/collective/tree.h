// The fixed binary tree over leaves (logical shards): nodes, runs and who holds what. Pure arithmetic.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "trireme/collective/schedule.h"

namespace trireme::collective {

// Level of the root: the smallest L with 2^L >= num_leaves.
constexpr int root_level(std::int32_t num_leaves) {
  return num_leaves <= 1 ? 0 : std::bit_width(static_cast<std::uint32_t>(num_leaves - 1));
}
constexpr TreeNode parent_of(TreeNode n) {
  return {static_cast<std::int32_t>(n.first & ~((std::int64_t{2} << n.level) - 1)), n.level + 1};
}
constexpr TreeNode sibling_of(TreeNode n) {
  return {static_cast<std::int32_t>(n.first ^ (std::int32_t{1} << n.level)), n.level};
}

// One run per rank, in order, each beginning where the last ended, covering [0, num_leaves). Empty runs are
// allowed.
Status check_leaf_runs(std::span<const LeafRun> runs, int world, std::int32_t num_leaves);

// The rank whose run holds `leaf`. Runs as check_leaf_runs wants them.
int rank_of_leaf(std::span<const LeafRun> runs, std::int32_t leaf);

}  // namespace trireme::collective
