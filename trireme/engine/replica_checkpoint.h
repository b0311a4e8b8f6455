// What only one replica has (its own weights, its optimiser's state, its rule's state), in checkpoints:
// tensors "replica/<worker>/<name>" and "rule/<worker>/<name>" beside the agreed model. With as many workers
// as before a run goes on as it was; with another number everybody starts from the agreed model.
#pragma once

#include <string>
#include <vector>

#include "trireme/engine/state/stored_state.h"
#include "trireme/io/safetensors.h"

namespace trireme::engine {

// Names "replica/<name>" and "rule/<name>", in the order of the lists.
io::NamedTensors replica_state(const io::NamedTensors& state, const io::NamedTensors& rule);

// Entry `index` of worker `worker`'s replica_state, under its name in checkpoints.
struct ReplicaTensor {
  std::string name;
  TensorType type;
  int worker = 0;
  std::uint32_t index = 0;
};
// All workers have entries of the names and types of `mine`.
std::vector<ReplicaTensor> replica_tensors(const io::NamedTensors& mine, int num_workers);

// A checkpoint's tensors into everybody's own replica_state, where it has them for exactly these workers;
// nothing happens otherwise. Collective.
runtime::Task<Status> restore_replicas(runtime::Runtime& rt, comm::Group& workers, io::NamedTensors mine,
                                       const StoredState& stored);

}  // namespace trireme::engine
