#include "trireme/comm/tree_sum.h"

#include <algorithm>
#include <cstring>

#include "trireme/collective/tree.h"

namespace trireme::comm {

using collective::LeafRun;
using collective::TreeNode;

std::optional<TreeSum> TreeSum::make(int world, std::span<const LeafRun> runs, std::int32_t num_leaves) {
  struct Value {
    TreeNode node;
    std::int32_t operand;
  };
  std::vector<Value> values;
  const std::int32_t leaves = runs.empty() ? world : num_leaves;
  for (int r = 0; r < world; ++r) {
    const LeafRun run = runs.empty() ? LeafRun{r, 1} : runs[static_cast<std::size_t>(r)];
    const auto nodes = collective::maximal_subtrees(run, leaves);
    if (nodes.size() != 1) return std::nullopt;
    values.push_back({nodes[0], r});
  }
  TreeSum sum;
  sum.world_ = world;
  std::int32_t next = world;
  // Level by level: neighbours that are siblings become their parent; one without a sibling climbs.
  for (int level = 0; level < collective::root_level(leaves); ++level) {
    std::vector<Value> up;
    for (std::size_t i = 0; i < values.size(); ++i) {
      Value v = values[i];
      if (v.node.level == level) {
        const TreeNode other = collective::sibling_of(v.node);
        v.node = collective::parent_of(v.node);
        if (other.first < leaves) {
          TR_CHECK(i + 1 < values.size() && values[i + 1].node == other, "the runs do not tile the tree");
          sum.additions_.push_back({v.operand, values[++i].operand, next});
          v.operand = next++;
        }
      }
      up.push_back(v);
    }
    values = std::move(up);
  }
  TR_CHECK(values.size() == 1 && static_cast<int>(sum.additions_.size()) == world - 1);
  sum.temporaries_.resize(static_cast<std::size_t>(std::max(0, world - 2)) * kPieceBytes);
  sum.at_.resize(static_cast<std::size_t>(next));
  return sum;
}

void TreeSum::run(const Combine& combine, std::span<const std::byte* const> in, std::byte* out,
                  std::byte* also, std::int64_t count, std::int64_t elem_bytes) {
  if (additions_.empty()) {  // one rank
    const auto bytes = static_cast<std::size_t>(count * elem_bytes);
    if (out != in[0]) std::memmove(out, in[0], bytes);
    if (also != nullptr) std::memcpy(also, in[0], bytes);
    return;
  }
  if (additions_.size() == 1) {
    combine.merge(out, also, in[static_cast<std::size_t>(additions_[0].left)],
                  in[static_cast<std::size_t>(additions_[0].right)], count);
    return;
  }
  const std::int64_t piece = kPieceBytes / elem_bytes;
  for (std::size_t t = 0; t + 1 < additions_.size(); ++t)
    at_[static_cast<std::size_t>(additions_[t].result)] = temporaries_.data() + t * kPieceBytes;
  for (std::int64_t from = 0; from < count; from += piece) {
    const std::int64_t num = std::min(piece, count - from), bytes = from * elem_bytes;
    const auto operand = [&](std::int32_t i) -> const std::byte* {
      const auto at = static_cast<std::size_t>(i);
      return i < world_ ? in[at] + bytes : at_[at];
    };
    for (std::size_t a = 0; a < additions_.size(); ++a) {
      const Addition& add = additions_[a];
      const bool last = a + 1 == additions_.size();
      combine.merge(last ? out + bytes : at_[static_cast<std::size_t>(add.result)],
                    last && also != nullptr ? also + bytes : nullptr, operand(add.left), operand(add.right),
                    num);
    }
  }
}

}  // namespace trireme::comm
