// How a run starts: rank 0 reads the plan and the newest checkpoint, or makes a plan, and sends everything to
// the others, so that kernels, shards and state are the same everywhere.
#pragma once

#include "trireme/base/json.h"
#include "trireme/comm/group.h"
#include "trireme/io/safetensors.h"
#include "trireme/train/worker.h"

namespace trireme::train {

struct StartState {
  std::shared_ptr<const Prepared> prepared;
  std::int64_t resume_step = 0;  // steps completed by the checkpoint
  std::int64_t resume_samples = 0;
  Json cursor;
  io::NamedTensors restored;  // rank 0 only
};

runtime::Task<Result<StartState>> agree_on_start(RankContext& context, comm::Group& group);

// Rank 0's restored tensors into `state` (same names, same order) on every rank.
runtime::Task<Status> restore_state(comm::Group& group, io::NamedTensors state,
                                    const io::NamedTensors& restored);

}  // namespace trireme::train
