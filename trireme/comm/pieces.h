// PieceSpans: parts of a tensor that ranks have cut along one dimension: where they lie, and packed for
// messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/op/op.h"
#include "trireme/tensor/tensor.h"

namespace trireme::comm {

// Tensors that differ in the extent of one dimension only, as rows of runs of elements.
struct Along {
  int dim = 0;
  std::int64_t outer = 1, inner = 1;  // elements before and behind the dimension
  std::size_t elem_bytes = 1;

  // A dimension below 0 counts from the end.
  static Along of(const TensorType& type, std::int64_t dim);
  std::size_t bytes(std::int64_t elems) const { return static_cast<std::size_t>(elems) * elem_bytes; }
  // Elements of a tensor with that extent.
  std::int64_t elems(std::int64_t extent) const { return outer * extent * inner; }

  // `count` indices of the dimension from index `at_from` of a tensor to index `at_to` of another one.
  struct Place {
    std::int64_t extent = 0, at = 0;
  };
  void copy(const std::byte* from, Place of_from, std::byte* to, Place of_to, std::int64_t count) const;
};

// Where the pieces of the ranks lie in a whole tensor: one behind the other in each of its rows. Packed, as
// collectives need them, they lie one behind the other, each with all of its rows.
struct PieceSpans {
  Along along;
  std::vector<std::int64_t> starts{0};  // along the dimension, and the end

  // `sizes`: of each rank; empty: equal ones of `world` ranks.
  static PieceSpans of(const TensorType& whole, std::int64_t dim, std::int64_t world,
                       const std::vector<std::int64_t>& sizes);
  // By the attributes world, dim and sizes.
  static PieceSpans of(const op::Attrs& attrs, const TensorType& whole);

  int world() const { return static_cast<int>(starts.size()) - 1; }
  std::int64_t total() const { return starts.back(); }
  std::int64_t start(int rank) const { return starts[static_cast<std::size_t>(rank)]; }
  std::int64_t size(int rank) const { return start(rank + 1) - start(rank); }
  // One behind the other as they lie.
  bool are_packed() const { return along.outer == 1; }
  // Elements of each rank's piece.
  std::vector<std::int64_t> counts() const;
  // Bytes from the beginning of the packed pieces to one of them.
  std::size_t in_packed(int rank) const { return along.bytes(along.elems(start(rank))); }
  void pack(const std::byte* whole, std::byte* packed) const;
  void unpack(const std::byte* packed, std::byte* whole) const;
};

}  // namespace trireme::comm
