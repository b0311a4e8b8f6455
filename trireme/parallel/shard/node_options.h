// Ways in which the nodes of a graph can be cut along one axis: what their ops offer, in parts that fit.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "trireme/graph/graph.h"
#include "trireme/parallel/shard/axis_cut.h"

namespace trireme::parallel {

// The first option of every node leaves it whole at every position. What is fed from outside and what has a
// state stays whole, but for variables.
//
// An op that does not care which indices a position has can be cut in blocks and units too. It gets such
// options where a dimension of the same size is cut so elsewhere in the graph: at a split of queries, keys
// and values, at a reshape into heads.
class NodeOptions {
 public:
  NodeOptions(const graph::Graph& graph, const ShardAxis& axis);
  const std::vector<op::LayoutOption>& of(std::int32_t node) const {
    return options_[static_cast<std::size_t>(node)];
  }

 private:
  struct Grain {
    int blocks = 1;
    std::int64_t unit = 1;
    friend bool operator<(const Grain& a, const Grain& b) {
      return std::pair(a.blocks, a.unit) < std::pair(b.blocks, b.unit);
    }
  };
  std::vector<op::LayoutOption> offered(std::int32_t node) const;
  bool add(std::int32_t node, op::LayoutOption option);
  void note_grains(std::int32_t node, const op::LayoutOption& option);
  bool refine(std::int32_t node);
  template <typename Fn>
  void for_cut_operands(std::int32_t node, const op::LayoutOption& option, const Fn& fn) const;

  const graph::Graph& graph_;
  const ShardAxis axis_;
  std::vector<std::vector<op::LayoutOption>> options_;
  std::map<std::int64_t, std::set<Grain>> grains_;  // by size of the dimension
};

}  // namespace trireme::parallel
