// The sums of a replica's buckets: which way of comm/sum each is added by, and so where backward writes.
#pragma once

#include <memory>
#include <vector>

#include "trireme/comm/device/device_sum.h"
#include "trireme/comm/sum/gradient_memory.h"
#include "trireme/comm/sum/gradient_sum.h"
#include "trireme/engine/gpu_side.h"
#include "trireme/prepare/prepared.h"

namespace trireme::engine {

struct BucketSumsOptions {
  bool leased = false;  // nothing is added: the rule sends what the worker has
  // Where weights are shared and updates need not wait: a worker needs the sum of its part only.
  bool scattered = false;
  std::shared_ptr<comm::DeviceSum> device_sum;  // not null: gradients are added on GPUs
  std::shared_ptr<comm::GradientMemory> turns;  // not null: buckets use it in turn (Prepared::places)
  comm::Group* stages = nullptr;                // along the stage axis, where it has several ranks
};

using BucketSums = std::vector<std::unique_ptr<comm::GradientSum>>;
Result<BucketSums> make_sums(runtime::Runtime& rt, comm::Group& group, const job::Job& job,
                             const prepare::Prepared& prepared, const GpuSide& gpu,
                             const BucketSumsOptions& options);

// What the sums keep from step to step for this worker's shards: "<name>/<bucket>". Live memory of the host,
// as of the last fetch_state() where it is kept on a GPU.
comm::NamedState shard_state(const BucketSums& sums);

}  // namespace trireme::engine
