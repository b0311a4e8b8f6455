// What a training worker holds in memory, part by part, before it starts. Nothing is computed or stored: the
// graphs are compiled as for training and their places and sizes are added up.
//
// Counted is what lives in tensors and buffers of a device. Not counted: the samples themselves, the program,
// what kernel libraries prepare for themselves (oneDNN's code and primitives) and messages that a transport
// holds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/job/job.h"
#include "trireme/model/zoo.h"
#include "trireme/plan/plan.h"

namespace trireme::prepare {

struct Prepared;  // prepare.h

struct MemoryPart {
  std::string_view name, doc;
  std::int64_t bytes = 0;
};

struct MemoryEstimate {
  std::int64_t shard_batch = 0;   // samples of a logical shard
  std::int64_t shards = 0;        // of the worker with most of them
  int shard_threads = 0;          // kernel threads of each
  std::vector<MemoryPart> parts;  // every part, in a fixed order
  std::int64_t total_bytes() const;
  std::int64_t bytes_of(std::string_view part) const;  // invariant: there is such a part
};

// The plan that a run which goes on has stored; null: it begins.
using StoredPlan = std::shared_ptr<const plan::Plan>;

// What the job's busiest worker needs, which has `threads` compute threads.
Result<MemoryEstimate> estimate_memory(const job::Job& job, const model::ModelInput& input, int threads,
                                       const StoredPlan& stored = nullptr);

// What each worker needs, in their order: all that is in memory of its ranks.
Result<std::vector<std::int64_t>> estimate_workers(const job::Job& job, const model::ModelInput& input,
                                                   int threads, const StoredPlan& stored = nullptr);

// What a rank whose graphs are compiled holds on its GPU where it has one, else on the host: the one of that
// replica (the coordinate along the data axis) at the position that `prepared` is of.
Result<MemoryEstimate> estimate_rank(const job::Job& job, const Prepared& prepared, int threads, int replica);
// The same for the first replica, which has as much as any.
Result<MemoryEstimate> estimate_prepared(const job::Job& job, const Prepared& prepared, int threads);

// Before anything is allocated: kExhausted where the job needs more than its GPU has free, with what is
// needed by part, the largest tensor and what to change. Fine where there is no GPU.
Status check_gpu_memory(const job::Job& job, const Prepared& prepared);

// train.memory_limit: cheap values of the training graph are computed again until the estimate is at most
// that. `compile_again` takes the new graph into `prepared`. kExhausted where that is not enough.
Status keep_below_limit(const job::Job& job, int threads, const Prepared& prepared,
                        const std::function<Status(const graph::Graph&)>& compile_again);

// The same of a rank that has segments of the model. `save` has a segment of it keep so many bytes less where
// it can.
Status keep_stage_below_limit(const job::Job& job, int threads, const Prepared& prepared,
                              const std::function<Status(std::size_t segment, std::int64_t bytes)>& save);
// Before the start: whether every stage of the job stays below its limit.
Status check_stage_memory(const job::Job& job, const model::ModelInput& input,
                          const StoredPlan& stored = nullptr);

// {"predicted_bytes", "measured_bytes"}: the estimate, and the most that this worker's GPU memory came to so
// far. None where there is no GPU.
std::optional<Json> gpu_memory(const job::Job& job, const Prepared& prepared);

// The largest train.batch whose estimate is at most `memory_bytes`; a multiple of the logical shards. 0: not
// even one sample per shard fits.
Result<std::int64_t> largest_batch(const job::Job& job, const model::ModelInput& input, int threads,
                                   std::int64_t memory_bytes);

}  // namespace trireme::prepare
