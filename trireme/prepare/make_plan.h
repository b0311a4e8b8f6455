// A fresh plan of a job: logical shards, owners, buckets and what they travel in. Nothing is compiled.
#pragma once

#include "trireme/cost/rates.h"
#include "trireme/plan/replica_model.h"
#include "trireme/prepare/codec_choice.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

// Overlap as the job asks for it, as far as it can be done: where updates wait for all gradients, one worker
// has nothing to hide, and other rules have steps of their own. `gpu_buckets`: buckets can leave a GPU one by
// one.
Result<plan::Overlap> possible_overlap(const job::Job& job, int world, bool on_gpu, bool gpu_buckets = false);

// As many as the job says, or one per replica; the samples of each; the kernel threads of each.
std::int32_t logical_shards_of(const job::Job& job, int replicas);
std::int64_t shard_batch_of(const job::Job& job, int replicas);
int shard_threads_of(const job::Job& job, const PrepareOptions& options);

// What prices are made of.
cost::Rates rates_of(const PrepareOptions& options);

// Who trades with whom, at what rates.
Result<plan::Replicas> replicas_of(const job::Job& job, const plan::Plan& plan,
                                   const PrepareOptions& options);
Result<plan::StepPrediction> predict_step(const job::Job& job, const plan::Plan& plan,
                                          const plan::StepCosts& costs, const PrepareOptions& options);

// Gradients travel by `sending`, which is not to be chosen any more; where `each` has any, every parameter's
// by its own.
Result<plan::Plan> fresh_plan(const job::Job& job, const PrepareOptions& options, const Prepared& prepared,
                              const job::Sending& sending, const TensorSendings& each = {});

}  // namespace trireme::prepare
