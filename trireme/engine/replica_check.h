// A check that replicas which must be equal are.
#pragma once

#include "trireme/comm/group.h"
#include "trireme/engine/state/held_state.h"

namespace trireme::engine {

// Hashes every piece here and compares the hashes of the ranks that hold the same piece: the same verdict
// everywhere. A rank is told apart by the majority of its holders, and by the first of them where there is
// none. kCorrupt names rank, tensor and piece. Fault point: {"weights", step} flips a bit of the first
// tensor.
runtime::Task<Status> check_replicas(runtime::Runtime& rt, comm::Group& group, std::int64_t step,
                                     const HeldState& holding);

// A piece and the ranks that hold it, in order.
struct CheckedPiece {
  std::string text;        // the tensor's name where it is the whole: "fc/weight", "fc/weight[0:2, 0:5]"
  std::size_t tensor = 0;  // which of the state
  std::size_t column = 0;  // of a rank's hashes
  std::vector<int> ranks;
};
// All pieces of the state, and how many hashes a rank has.
struct CheckedPieces {
  std::vector<CheckedPiece> pieces;
  std::size_t columns = 0, tensors = 0;
};
CheckedPieces checked_pieces(const parallel::Holdings& holdings);

// The verdict over hashes[rank * columns + column]. Pure.
Status compare_replicas(const CheckedPieces& all, std::span<const std::int64_t> hashes, std::int64_t step);

}  // namespace trireme::engine
