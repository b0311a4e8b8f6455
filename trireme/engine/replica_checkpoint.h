// What only one replica has (its own weights, its optimiser's state, its rule's state), in checkpoints:
// tensors "replica/<worker>/<name>" and "rule/<worker>/<name>" beside the agreed model. With as many workers
// as before a run goes on as it was; with another number everybody starts from the agreed model.
#pragma once

#include <map>

#include "trireme/base/bytes.h"
#include "trireme/engine/state/stored_state.h"
#include "trireme/io/safetensors.h"

namespace trireme::engine {

// Names "replica/<name>" and "rule/<name>", in the order of the lists.
io::NamedTensors replica_state(io::NamedTensors state, std::vector<std::pair<std::string, Tensor>> rule);

// Rank 0: `bytes[{worker, i}]` is entry i of that worker's replica_state; names and types are those of
// `mine`. Without a copy. kCorrupt when something is missing.
Result<io::NamedTensors> name_replicas(const io::NamedTensors& mine,
                                       const std::map<std::pair<int, std::uint32_t>, Tensor>& bytes,
                                       int num_workers);

// A checkpoint's tensors into everybody's own replica_state, where it has them for exactly these workers;
// nothing happens otherwise. Collective.
runtime::Task<Status> restore_replicas(runtime::Runtime& rt, comm::Group& workers, io::NamedTensors mine,
                                       const StoredState& stored);

}  // namespace trireme::engine
