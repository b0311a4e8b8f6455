#include "trireme/collective/tree.h"

#include <algorithm>

namespace trireme::collective {

std::vector<TreeNode> maximal_subtrees(LeafRun run, std::int32_t num_leaves) {
  TR_CHECK(run.first >= 0 && run.count >= 0 && run.first + run.count <= num_leaves);
  std::vector<TreeNode> nodes;
  const std::int64_t end = run.first + run.count;
  for (std::int64_t at = run.first; at < end;) {
    int level = 0;
    const auto end_at = [&](int l) {
      return std::min<std::int64_t>(at + (std::int64_t{1} << l), num_leaves);
    };
    while (level < root_level(num_leaves) && at % (std::int64_t{2} << level) == 0 && end_at(level + 1) <= end)
      ++level;
    nodes.push_back({static_cast<std::int32_t>(at), level});
    at = end_at(level);
  }
  return nodes;
}

Status check_leaf_runs(std::span<const LeafRun> runs, int world, std::int32_t num_leaves) {
  if (static_cast<int>(runs.size()) != world)
    return error(Code::kInvalid,
                 "[collective] leaf runs do not fit the group: got {}, expected one per rank ({})",
                 runs.size(), world);
  std::int64_t at = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].first != at || runs[r].count < 0)
      return error(
          Code::kInvalid,
          "[collective] leaf run of rank {} is out of place: got [{}, +{}), expected it to begin at {}", r,
          runs[r].first, runs[r].count, at);
    at += runs[r].count;
  }
  if (at != num_leaves || num_leaves < 1)
    return error(Code::kInvalid, "[collective] leaf runs cover {} leaves, expected {} (at least 1)", at,
                 num_leaves);
  return {};
}

int rank_of_leaf(std::span<const LeafRun> runs, std::int32_t leaf) {
  const auto after = std::upper_bound(runs.begin(), runs.end(), leaf,
                                      [](std::int32_t l, const LeafRun& r) { return l < r.first; });
  return static_cast<int>(after - runs.begin()) - 1;
}

}  // namespace trireme::collective
