// StoredState: a checkpoint, or the weights of another model, that the ranks of a group read together. Every
// rank that sees the files reads its own pieces; the others get theirs from the nearest rank that does.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/engine/state/held_state.h"
#include "trireme/engine/state/piece_stream.h"
#include "trireme/io/stored_tensors.h"

namespace trireme::engine {

struct StoredState {
  std::shared_ptr<io::StoredTensors> files;  // null: this rank does not see them
  std::map<std::string, TensorType> types;   // of all tensors, the same on every rank
  std::vector<bool> sees;                    // per rank, the same on every rank; rank 0 does

  bool is_there() const { return !sees.empty(); }
  std::optional<TensorType> type_of(const std::string& name) const;
};

// What rank 0 tells the others of the files that it has opened, and what others make of it. `path` on rank 0
// is what it is called there.
Json describe_stored(const io::StoredTensors& files);
struct StoredHead {
  std::string path, content_sha256;
  std::int64_t step = 0;
  std::map<std::string, TensorType> types;
};
Result<StoredHead> stored_head_from_json(const Json& json);

// Who sees the files that rank 0 has opened and verified: those who find the same content under `path`, or
// with `opened` the ones that this rank has open. Ranks of rank 0's host do not check hashes again.
// Collective.
runtime::Task<Result<StoredState>> share_stored(runtime::Runtime& rt, comm::Group& group, StoredHead head,
                                                std::string path, std::shared_ptr<io::StoredTensors> opened);

// The stored tensors into what every rank holds of them. Memory that ranks share is filled by rank 0 alone.
// kCorrupt: a tensor is missing or has another type, or a file is damaged; a failure of one rank is that
// rank's, which poisons the group. Collective; needs memory for a chunk, or none where all see the files.
runtime::Task<Status> restore_pieces(runtime::Runtime& rt, comm::Group& group, const StoredState& stored,
                                     const HeldState& holding, StreamCall call);

// The rank of those that see the files that is nearest to `rank`, the lower one where two are.
int nearest_reader(const std::vector<bool>& sees, int rank);

}  // namespace trireme::engine
