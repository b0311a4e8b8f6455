// SampleDims: where the samples of a batch lie in the values of a position's graph, and which nodes compute
// every sample by itself. Pure.
//
// Inputs that have dimensions begin with the samples of the whole batch. From there layout rules say along
// which dimension they are in what is made of them. Collectives along the axis, and take_part, turn all
// samples into those of the position (its own) and back.
#pragma once

#include <optional>
#include <vector>

#include "trireme/graph/graph.h"
#include "trireme/graph/storage.h"
#include "trireme/parallel/shard/axis_cut.h"

namespace trireme::parallel {

// The dimension of a value along which its samples lie.
struct SampleDim {
  int dim = -1;           // -1: it has none, or nobody knows
  std::int64_t unit = 1;  // indices of a sample
  bool own = false;       // the position's samples only
  bool is_there() const { return dim >= 0; }
};

// What a node does with samples beside computing with them.
enum class SampleMove : std::uint8_t { kNone, kGather, kScatter };  // own to all, all to own

class SampleDims {
 public:
  // Looks at the graph of position 0, whose parts are the largest. Nothing is known where inputs have batches
  // of several sizes.
  SampleDims(const graph::Graph& first, const ShardAxis& axis);

  std::int64_t batch() const { return batch_; }
  const std::vector<std::int64_t>& own() const { return own_; }  // samples of each position
  const SampleDim& of(graph::Value v) const {
    return dims_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  }
  SampleMove move(std::int32_t id) const { return moves_[static_cast<std::size_t>(id)]; }
  // How a node is cut between samples where any of them can be computed without the others; moves too.
  // Outputs lie along their samples or are partial sums.
  const std::optional<op::LayoutOption>& option(std::int32_t id) const {
    return options_[static_cast<std::size_t>(id)];
  }
  // Indices of a sample in a dimension of `size`; 0: it is no multiple of the samples.
  std::int64_t unit_of(std::int64_t size, bool own) const;

 private:
  bool find_batch(const graph::Graph& graph);
  void put(const graph::Graph& graph, std::int32_t id, const ShardAxis& axis);
  bool put_move(const graph::Graph& graph, std::int32_t id, const ShardAxis& axis);
  bool is_parts(const std::vector<std::int64_t>& sizes, std::int64_t unit) const;
  bool fits(const graph::Graph& graph, std::int32_t id, const op::LayoutOption& option) const;

  std::int64_t batch_ = 0;
  std::vector<std::int64_t> own_;
  std::vector<std::vector<SampleDim>> dims_;  // per node and output
  std::vector<SampleMove> moves_;
  std::vector<std::optional<op::LayoutOption>> options_;
};

}  // namespace trireme::parallel
