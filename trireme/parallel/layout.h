// Layout: how the ranks of a mesh hold a tensor. Pure.
//
// Axes cut one after the other, in the order of the mesh: what an inner axis cuts is what the outer ones left
// to the rank. Cuts differ by at most one unit, longer ones first, so sizes need not divide. op::LayoutOption
// says the same of one axis and one op, by the number of the dimension.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"
#include "trireme/collective/schedule.h"
#include "trireme/op/op.h"
#include "trireme/parallel/mesh.h"
#include "trireme/tensor/shape.h"

namespace trireme::parallel {

// What one axis does to a tensor.
struct AxisLayout {
  enum class Kind : std::uint8_t {
    kReplicate,  // every position has the same values
    kShard,      // dimension `dim` is cut
    kPartial,    // every position has values of all elements, which must be reduced
    kFlat,       // the row-major elements are cut: parameters and optimizer state only
    kAt,         // some positions have all of it, the others nothing: parameters and state only
  };
  Kind kind = Kind::kReplicate;
  int dim = 0;  // kShard
  // kShard: the dimension is this many equal blocks one after the other, and each of them is cut, as the
  // columns of one matrix for queries, keys and values are.
  int blocks = 1;
  // kShard: blocks are cut between groups of so many indices, as op::AxisCut says.
  std::int64_t unit = 1;
  collective::Reduction reduction = collective::Reduction::kSum;  // kPartial: kSum or kMax
  std::vector<int> places = {};                                   // kAt: ascending, at least one

  static AxisLayout replicate() { return {}; }
  static AxisLayout shard(int dim, int blocks = 1, std::int64_t unit = 1) {
    return {.kind = Kind::kShard, .dim = dim, .blocks = blocks, .unit = unit};
  }
  static AxisLayout partial(collective::Reduction r = collective::Reduction::kSum) {
    return {.kind = Kind::kPartial, .reduction = r};
  }
  static AxisLayout flat() { return {.kind = Kind::kFlat}; }
  static AxisLayout at(std::vector<int> places) { return {.kind = Kind::kAt, .places = std::move(places)}; }
  // From an entry of op::LayoutOption.
  static AxisLayout of_option(const op::AxisCut& entry);
  op::AxisCut to_option() const;  // of one that replicates or cuts a dimension

  // Positions of the axis hold different elements.
  bool cuts() const { return kind == Kind::kShard || kind == Kind::kFlat; }
  // Whether that position has any of it.
  bool is_at(int position) const;
  // "replicate", "shard(dim)", "shard(dim,blocks)", "shard(dim,blocks,unit)", "partial(sum)", "flat",
  // "at(0,3)"
  std::string to_text() const;
  static Result<AxisLayout> parse(std::string_view text);
  friend bool operator==(const AxisLayout&, const AxisLayout&) = default;
};

struct Layout {
  std::vector<AxisLayout> axes;  // as the axes of the mesh

  static Layout replicate(const Mesh& mesh) { return {std::vector<AxisLayout>(mesh.axes.size())}; }
  // One text per axis, with spaces between them: "replicate shard(0)".
  std::string to_text() const;
  static Result<Layout> parse(std::string_view text);
  friend bool operator==(const Layout&, const Layout&) = default;
};

// One entry per axis; dimensions that the tensor has; blocks of whole units that divide what is left to every
// rank; blocks and flat cuts not together, since the elements of several blocks are no range.
Status check_layout(const Layout& layout, const Mesh& mesh, const TensorType& whole);

}  // namespace trireme::parallel
