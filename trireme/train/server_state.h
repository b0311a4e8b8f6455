// What parameter servers keep beside the model (their optimiser's state), in checkpoints: tensors
// "server/<parameter>/<state>" of the parameter's shape, whole however many servers there were, so that any
// other number of them can go on from it. Rank 0 writes them and has no copy: servers bring them by letters,
// chunk by chunk. A server reads its own pieces, or gets them by letters where it does not see the files.
#pragma once

#include "trireme/comm/mailbox.h"
#include "trireme/engine/state/stored_state.h"
#include "trireme/io/safetensors.h"
#include "trireme/job/roles.h"
#include "trireme/parallel/layout.h"
#include "trireme/prepare/prepared.h"
#include "trireme/server/server.h"
#include "trireme/train/distant_state.h"
#include "trireme/train/server_role.h"

namespace trireme::train {

// A piece of a tensor of the checkpoint, and where it is kept.
struct StatePiece {
  std::string name;  // of the whole: "server/<parameter>/<state>"
  TensorType whole;
  parallel::Layout layout;   // over a replica: which part of it a tile has
  int tile = 0;              // whose servers keep it
  int number = 0, rank = 0;  // served_number(), and where
  std::uint32_t index = 0;   // in Server::state()
  server::StateEntry entry;  // its elements count in the tile's own tensor
};
// The state of all servers of the job; values are left out, since they are the model.
Result<std::vector<StatePiece>> server_state_pieces(const job::Job& job, const prepare::Prepared& prepared,
                                                    const job::Roles& roles);

// The tensors of a checkpoint, by name. They are read while no server makes an update. Where pieces of a
// parameter have counted differently, "step" is the most.
std::vector<DistantTensor> server_tensors(runtime::Runtime& rt, comm::Mailbox& mail, const job::Roles& roles,
                                          std::span<const StatePiece> pieces);

// Before the first step. A checkpoint without any such tensors leaves servers as they are; kCorrupt: some are
// missing or have another type.
//
// What the servers of rank `rank` keep, where that rank sees the files.
runtime::Task<Status> read_server_state(const engine::StoredState& stored, std::vector<StatePiece> pieces,
                                        const job::Roles& roles, int rank, const ServedState& served);
// Rank 0, for servers of all ranks that do not: one chunk at a time.
runtime::Task<Status> restore_server_state(comm::Mailbox& mail, std::vector<StatePiece> pieces,
                                           const job::Roles& roles, const engine::StoredState& stored);

}  // namespace trireme::train
