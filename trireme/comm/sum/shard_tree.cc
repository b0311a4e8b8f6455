#include "trireme/comm/sum/shard_tree.h"

namespace trireme::comm {

using collective::LeafRun;
using collective::TreeNode;

void add_vector(const Tensor& to, const Tensor& from) {
  float* a = to.data<float>();
  const float* b = from.data<float>();
  const std::int64_t n = to.shape().num_elems();
  for (std::int64_t i = 0; i < n; ++i) a[i] += b[i];
}

// Left half, right half, then left += right.
void add_tree_node(std::span<const Tensor> shards, LeafRun run, TreeNode node) {
  if (node.level == 0) return;
  const std::int32_t half = std::int32_t{1} << (node.level - 1), end = run.first + run.count;
  TreeNode child = node;
  --child.level;
  add_tree_node(shards, run, child);
  if (node.first + half >= end) return;  // no right half: the node is its left child
  child.first += half;
  add_tree_node(shards, run, child);
  add_vector(shards[static_cast<std::size_t>(node.first - run.first)],
             shards[static_cast<std::size_t>(child.first - run.first)]);
}

std::vector<Tensor> add_own_shards(std::span<const Tensor> shards, LeafRun run, std::int32_t num_shards) {
  std::vector<Tensor> sums;
  for (const TreeNode& node : collective::maximal_subtrees(run, num_shards)) {
    const Tensor& first = shards[static_cast<std::size_t>(node.first - run.first)];
    if (!first.is_phantom()) add_tree_node(shards, run, node);
    sums.push_back(first);
  }
  return sums;
}

}  // namespace trireme::comm
