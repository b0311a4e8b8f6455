// Piece: a part of a named tensor, as a rank holds it. Pure.
//
// A piece is a box of the tensor, or a range of the box's row-major elements. Layouts give each rank its
// pieces; the runs that two pieces share say what to copy where when a tensor moves from one layout to
// another, into a checkpoint or out of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/parallel/layout.h"

namespace trireme::parallel {

// Indices [begin, end).
struct Interval {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

// Part `position` of `interval` cut in `parts`, which differ by at most one, longer ones first.
Interval cut_evenly(Interval interval, int parts, int position);

using Box = std::vector<Interval>;  // per dimension
std::int64_t num_elems(const Box& box);
Box whole_box(const Shape& shape);
// Empty where they share nothing.
std::optional<Box> intersect(const Box& a, const Box& b);

struct Piece {
  std::string name;  // of the tensor
  TensorType whole;
  Box box;
  Interval range;  // of the box's elements in row-major order; all of them where nothing is cut flat

  static Piece of_whole(std::string name, const TensorType& whole);
  static Piece of_box(std::string name, const TensorType& whole, Box box);

  std::int64_t elems() const { return range.size(); }
  bool is_box() const { return range == Interval{0, num_elems(box)}; }
  std::string to_text() const;  // "fc/weight[0:128, 64:128]", "fc/weight[0:128, 0:64] flat 0:100"
  friend bool operator==(const Piece&, const Piece&) = default;
};

// Elements that lie one after the other in two pieces: `count` of them, from `first` of the one and from
// `second` of the other, counted within the pieces.
struct SharedRun {
  std::int64_t first = 0, second = 0, count = 0;
  friend bool operator==(const SharedRun&, const SharedRun&) = default;
};
// Everything that two pieces of one tensor share, in the order of the elements; as few runs as there can be.
std::vector<SharedRun> shared_runs(const Piece& a, const Piece& b);
// Where the elements of a piece are in the whole tensor: `second` counts there.
std::vector<SharedRun> runs_in_whole(const Piece& piece);

// Whether pieces of one tensor hold each of its elements exactly once, in boxes that are equal or have
// nothing in common, as layouts make them. kInvalid says what is wrong.
Status check_cover(std::span<const Piece> pieces);
// The part [begin, end) of a piece's elements.
Piece part_of(const Piece& piece, Interval part);
// The elements [begin, end) of a tensor in row-major order, as a piece of the rows that they lie in.
Piece window_of(const std::string& name, const TensorType& whole, Interval elems);

// What a rank holds of a tensor, in the order in which it holds it: one piece, or one per block, joined along
// the dimension that is cut in blocks. Pieces without elements are left out. The layout was checked.
std::vector<Piece> pieces_of(const Layout& layout, const Mesh& mesh, int rank, const std::string& name,
                             const TensorType& whole);
// The shape of that, where no axis cuts flat; dimension 0 is empty where the rank has nothing of it (scalars
// have none).
Shape local_shape(const Layout& layout, const Mesh& mesh, int rank, const Shape& whole);

// kInvalid where blocks of some rank would not be equal or not have whole units. Part of check_layout.
Status check_blocks(const Layout& layout, const Mesh& mesh, const Shape& whole);

}  // namespace trireme::parallel
