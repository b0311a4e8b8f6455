// Joined tensors: whole tensors of which the ranks of a replica hold parts, as rank 0 reads them for a
// checkpoint, a window at a time. Nobody has the whole.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/parallel/piece.h"
#include "trireme/train/distant_state.h"

namespace trireme::train {

// The mesh of one replica of it, whose ranks are the tiles.
parallel::Mesh mesh_of_replica(parallel::Mesh mesh);

// Elements of a window of the whole that a tile has: `first` counts in the tile's own tensor, which is all of
// its pieces joined, `second` in the window. In the order of `first`.
std::vector<parallel::SharedRun> runs_of_tile(const parallel::Layout& layout, const parallel::Mesh& mesh,
                                              int tile, const TensorType& whole, parallel::Interval window);

// Elements of a tile's own tensor that block `p` of its pieces holds: `first` counts in the tile's tensor,
// `second` in the block. In the order of both.
std::vector<parallel::SharedRun> runs_of_block(const std::vector<parallel::Piece>& blocks, std::size_t p);

// Bytes of a tile's own tensor from byte `begin` on.
using ReadOfTile = std::function<runtime::Task<Status>(int tile, std::uint64_t begin, MutByteView to)>;

// `mesh`: mesh_of_replica().
DistantTensor joined_tensor(std::string name, const TensorType& whole, parallel::Layout layout,
                            parallel::Mesh mesh, ReadOfTile read);

}  // namespace trireme::train
