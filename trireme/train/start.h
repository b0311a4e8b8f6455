// How a run starts: rank 0 reads the plan and finds the newest whole checkpoint, or makes a plan, and tells
// the others, so that kernels, shards and state are the same everywhere. Who sees the checkpoint reads its
// own part of it.
#pragma once

#include "trireme/base/json.h"
#include "trireme/comm/group.h"
#include "trireme/engine/state/stored_state.h"
#include "trireme/record/position.h"
#include "trireme/train/rank_context.h"

namespace trireme::train {

struct StartState {
  std::shared_ptr<const prepare::Prepared> prepared;
  bool resumed = false;
  record::Position at;
  Json cursor;
  Json data;                   // rank 0 only: what checkpoints keep of the data (data_record.h)
  engine::StoredState stored;  // the checkpoint, or model.init_from; not there on a phantom Runtime
};

runtime::Task<Result<StartState>> agree_on_start(RankContext& context, comm::Group& group);

// The tensors that are named in `names` from `stored`, a model of that path, into `state` on every rank: a
// model that starts from another one's weights. kInvalid names what does not fit. Collective.
runtime::Task<Status> inherit_state(runtime::Runtime& rt, comm::Group& group, std::string_view from,
                                    const std::vector<std::string>& names, const engine::HeldState& state,
                                    const engine::StoredState& stored);

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
