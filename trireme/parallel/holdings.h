// Holdings: which rank holds which pieces of a job's state. Pure.
//
// State is named tensors, each laid out over the mesh of ranks. Checkpoints, hashes and checks walk over them
// by name; nobody asks for a whole tensor.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/parallel/piece.h"

namespace trireme::parallel {

// A tensor of the state and who holds what of it.
struct StateTensor {
  std::string name;
  TensorType whole;
  Layout layout;  // over the mesh; nothing of it is partial
  // Not empty: state of logical shards, one row per shard. Coordinate d of the data axis holds the rows of
  // run d; along other axes the layout may cut other dimensions.
  std::vector<collective::LeafRun> rows = {};
  // Above -1: this rank alone holds the tensor, as a whole.
  int only_rank = -1;
  // Not empty: what the layout leaves to a rank, in row-major order and joined, is divided along the data
  // axis, and coordinate d holds the elements of ranges[d] that there are. One after the other; the first
  // begins at 0 or before, the last ends behind the elements of every rank.
  std::vector<Interval> ranges = {};
};

struct Holdings {
  Mesh mesh;
  std::vector<StateTensor> tensors;  // by name
};

// Names are in order and differ; layouts fit and have nothing partial; rows tile their tensor.
Status check_holdings(const Holdings& holdings);

// What a rank holds of tensor `tensor`, in the order in which it holds it. A tensor without elements is held
// as a whole.
std::vector<Piece> pieces_held(const Holdings& holdings, std::size_t tensor, int rank);

// Elements of joined pieces that lie one after the other, as pieces of the tensor, with their places in what
// is joined. Blocks of dimension 0 lie one behind the other there, those of dimension 1 beside each other:
// then rows are joined, and a range of several rows has a piece of each block with gaps between its rows.
// Blocks of other dimensions cannot be divided so.
struct RangePiece {
  Piece piece;
  std::int64_t first = 0;       // of its elements, in what is joined
  std::int64_t row_stride = 0;  // between its rows (dimension 0); 0: there are no gaps
};
std::vector<RangePiece> pieces_of_range(const std::vector<Piece>& joined, Interval range);
// The same of what a rank holds of a tensor with ranges; `range`: its elements of what is joined.
std::vector<RangePiece> range_held(const Holdings& holdings, std::size_t tensor, int rank, Interval& range);

// A piece and the first rank, in rank order, that holds it.
struct FirstHeld {
  std::size_t tensor = 0;
  Piece piece;
  int rank = 0;
};
// Every element of the tensor once, by rank.
std::vector<FirstHeld> distinct_pieces(const Holdings& holdings, std::size_t tensor);
// The same of all tensors, in their order.
std::vector<FirstHeld> distinct_pieces(const Holdings& holdings);
// All ranks that hold the same of a tensor as `rank` does, in order.
std::vector<int> holders(const Holdings& holdings, std::size_t tensor, int rank);
// Whether every rank holds all of every tensor.
bool all_replicated(const Holdings& holdings);

}  // namespace trireme::parallel
