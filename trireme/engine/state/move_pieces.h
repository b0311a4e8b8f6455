// Pieces of one tensor from those who have them to those who want them, all ranks at once: a tensor into
// another layout, boxes out of a layout and into it.
#pragma once

#include <vector>

#include "trireme/engine/state/piece_stream.h"

namespace trireme::engine {

// What each rank has of a tensor, or wants of it, known to all of them, and this rank's memory of its own.
struct PiecesByRank {
  std::vector<std::vector<parallel::Piece>> ranks;
  std::vector<Tensor> own;  // per piece of this rank
};

// Collective; all ranks give the same pieces. Pieces that ranks have are equal or have nothing in common; a
// piece that several have comes from the rank that wants it, or else from the first of them. Elements that
// nobody has stay as they are where they are wanted. Every rank sends to one and gets from one other at a
// time, at most chunk_bytes of each, and keeps no more than two chunks. On a phantom Runtime sizes travel.
//
// The call's slot and step are not used by others meanwhile.
runtime::Task<Status> move_pieces(runtime::Runtime& rt, comm::Group& group, StreamCall call,
                                  PiecesByRank from, PiecesByRank to);

}  // namespace trireme::engine
