// Snapshot: the bytes of files of a checkpoint, in memory that is kept and reused.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trireme/io/checkpoint.h"
#include "trireme/io/manifest.h"
#include "trireme/io/shards.h"

namespace trireme::io {

class Snapshot {
 public:
  Snapshot();

  // Copies what is in `shards` (of a plan for pieces whose memory is `tensors`) on all threads of the pool.
  // kExhausted when the memory is not there. A Task destroyed meanwhile does not stop the copying: the
  // tensors' buffers are kept alive until it is done, their content must not matter any more.
  runtime::Task<Status> take(runtime::Runtime& rt, const NamedTensors& tensors,
                             std::span<const Shard> shards);

  // Where the bytes of pieces without memory belong, per piece of the plan; empty of all others.
  std::vector<MutByteView> places_to_fill(const NamedTensors& tensors, std::span<const Shard> shards) const;

  std::size_t num_files() const;
  ByteView file(std::size_t index) const;  // as of the last take(); valid until the next
  std::shared_ptr<const void> owner() const { return memory_; }  // of those bytes

 private:
  struct Memory;
  std::shared_ptr<Memory> memory_;  // shared with a copy under way
};

// Everything but the hashes of files and pieces.
Manifest manifest_of(const CheckpointPart& part, std::span<const Shard> shards);

}  // namespace trireme::io
