// What only one replica has (its own weights, its optimiser's state, its rule's state), in checkpoints:
// tensors "replica/<worker>/<name>" and "rule/<worker>/<name>" beside the agreed model. With as many workers
// as before a run goes on as it was; with another number everybody starts from the agreed model. A worker is
// a rank; the ranks of a replica may have tensors of different types, by their places.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/engine/state/stored_state.h"
#include "trireme/io/safetensors.h"

namespace trireme::engine {

// Names "replica/<name>" and "rule/<name>", in the order of the lists.
io::NamedTensors replica_state(const io::NamedTensors& state, const io::NamedTensors& rule);

using StateTypes = std::vector<std::pair<std::string, TensorType>>;
StateTypes types_of(const io::NamedTensors& tensors);
// As text for other ranks of the same version.
std::string types_text(const StateTypes& types);
Result<StateTypes> types_from_text(const std::string& text);

// Entry `index` of worker `worker`'s replica_state, under its name in checkpoints.
struct ReplicaTensor {
  std::string name;
  TensorType type;
  int worker = 0;
  std::uint32_t index = 0;
};
// The workers of so many replicas; `by_place` is what the rank at each place of a replica has.
std::vector<ReplicaTensor> replica_tensors(std::span<const StateTypes> by_place, int num_replicas);

// A checkpoint's tensors into everybody's own replica_state, where it has them for exactly these workers;
// nothing happens otherwise. Collective.
runtime::Task<Status> restore_replicas(runtime::Runtime& rt, comm::Group& workers, io::NamedTensors mine,
                                       std::vector<StateTypes> by_place, const StoredState& stored);

}  // namespace trireme::engine
