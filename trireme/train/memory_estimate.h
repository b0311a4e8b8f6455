// What a training worker holds in memory, part by part, before it starts. Nothing is computed or stored: the
// graphs are compiled as for training and their places and sizes are added up.
//
// Counted is what lives in tensors and buffers of a device. Not counted: the samples themselves, the program,
// what kernel libraries prepare for themselves (oneDNN's code and primitives) and messages that a transport
// holds.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/model/zoo.h"
#include "trireme/train/job.h"

namespace trireme::train {

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

// Of the job's busiest worker, which has `threads` compute threads.
Result<MemoryEstimate> estimate_memory(const Job& job, const model::ModelInput& input, int threads);

// The largest train.batch whose estimate is at most `memory_bytes`; a multiple of the logical shards. 0: not
// even one sample per shard fits.
Result<std::int64_t> largest_batch(const Job& job, const model::ModelInput& input, int threads,
                                   std::int64_t memory_bytes);

}  // namespace trireme::train
