// What belongs to logical shards in lock step (residuals of codecs): to rank 0 for checkpoints, and to the
// shards' owners when a run is resumed or shards change hands. In checkpoints "shard/<name>", [all shards,
// elements]: any number of workers can go on with it.
#pragma once

#include "trireme/comm/sum/gradient_sum.h"
#include "trireme/io/safetensors.h"

namespace trireme::engine {

// Moments at which it moves; each has slots of its own.
enum class ShardMove : std::uint8_t { kCheckpoint, kBalance, kRestore };

// `own`: Replica::shard_state(). On rank 0: all shards' state; nothing on the others. Collective; `step`
// names the messages.
runtime::Task<Result<io::NamedTensors>> gather_shard_state(runtime::Runtime& rt, comm::Group& workers,
                                                           const comm::NamedState& own,
                                                           const std::vector<collective::LeafRun>& owners,
                                                           std::int64_t step, ShardMove move);

// From rank 0's `all` to everybody's own, after take_shards(). kCorrupt where something is missing, unless it
// `may_lack` it: then it stays zero.
runtime::Task<Status> scatter_shard_state(runtime::Runtime& rt, comm::Group& workers,
                                          const comm::NamedState& own,
                                          const std::vector<collective::LeafRun>& owners,
                                          const io::NamedTensors& all, std::int64_t step, ShardMove move,
                                          bool may_lack = false);

}  // namespace trireme::engine
