// What belongs to logical shards in lock step (residuals of codecs), rows of "shard/<name>", [all shards,
// elements]: to the shards' owners when a run is resumed or shards change hands. Any number of workers can go
// on with it.
#pragma once

#include "trireme/engine/state/stored_state.h"

namespace trireme::engine {

// A checkpoint's rows into everybody's own (`rows`: hold_rows). kCorrupt where something is missing, unless
// it `may_lack` it: then it is zero. Collective.
runtime::Task<Status> restore_shard_state(runtime::Runtime& rt, comm::Group& workers,
                                          const StoredState& stored, const HeldState& rows, bool may_lack);

// Rows from those who had them to those who have them now; names and types are the same in both. Collective;
// `step` names the messages.
runtime::Task<Status> move_shard_state(runtime::Runtime& rt, comm::Group& workers, const HeldState& before,
                                       const HeldState& now, std::int64_t step);

// What every stage has, in the order of `stages`, the ranks of a stage axis. Collective.
runtime::Task<Result<std::vector<RowsOfStage>>> learn_rows(runtime::Runtime& rt, comm::Group& stages,
                                                           const comm::NamedState& own);

}  // namespace trireme::engine
