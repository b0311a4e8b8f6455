// How a run starts: rank 0 reads the plan and the newest checkpoint, or makes a plan, and sends everything to
// the others, so that kernels, shards and state are the same everywhere.
#pragma once

#include <functional>

#include "trireme/base/json.h"
#include "trireme/comm/group.h"
#include "trireme/io/safetensors.h"
#include "trireme/record/position.h"
#include "trireme/train/rank_context.h"

namespace trireme::train {

struct StartState {
  std::shared_ptr<const prepare::Prepared> prepared;
  bool resumed = false;
  record::Position at;
  Json cursor;
  Json data;                  // rank 0 only: what checkpoints keep of the data (data_record.h)
  io::NamedTensors restored;  // rank 0 only: of the checkpoint, or of model.init_from
};

runtime::Task<Result<StartState>> agree_on_start(RankContext& context, comm::Group& group);

// Memory that is rank 0's and everybody's.
using IsShared = std::function<bool(const Tensor&)>;

// Rank 0's restored tensors into `state` (same names, same order) on every rank. What is shared is written by
// rank 0 alone.
runtime::Task<Status> restore_state(runtime::Runtime& rt, comm::Group& group, io::NamedTensors state,
                                    const io::NamedTensors& restored, IsShared is_shared = {});

// Rank 0's `source` tensors into those of `state` that are named in `names`, on every rank: a model that
// starts from another one's weights. kInvalid names what does not fit.
runtime::Task<Status> inherit_state(runtime::Runtime& rt, comm::Group& group, std::string_view from,
                                    const std::vector<std::string>& names, io::NamedTensors state,
                                    const io::NamedTensors& source, IsShared is_shared = {});

// Whoever shows the run hears how it starts, or goes on at `at`. On rank 0.
void tell_start(const RankContext& context, const prepare::Prepared& prepared, const record::Position& at,
                std::int64_t total_batches, std::int64_t batches_per_epoch);

// What this rank prepares with.
prepare::PrepareOptions prepare_options(const RankContext& context, const comm::Group& group);
// Compiling may take a while; on the pool it does not hold up the heartbeats of the loop.
runtime::Task<Result<std::shared_ptr<const prepare::Prepared>>> prepare_on_pool(
    runtime::Runtime& rt, const job::Job& job, const data::Dataset& data,
    const prepare::PrepareOptions& options);

}  // namespace trireme::train
