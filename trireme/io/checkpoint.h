// Checkpoints: shards of tensors, content-hashed, manifest written last, two generations kept. Layout:
// docs/format_checkpoint.md.
//
// A crash at any moment leaves the previous generation whole: files of the new one are synced before its
// manifest appears, and the old ones are removed only after that. A save that fails takes away what it wrote.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/io/safetensors.h"
#include "trireme/runtime/files.h"

namespace trireme::io {

struct Checkpoint {
  std::int64_t step = 0;  // steps completed
  Json state;             // cursor, counters, seeds: whatever the trainer needs besides tensors
  NamedTensors tensors;   // weights and optimiser state
  // Generations of these steps stay when older ones are removed; not written down.
  std::vector<std::int64_t> keep = {};
};

struct CheckpointOptions {
  // Tensors of at most so many bytes share a file; a larger tensor has one of its own.
  std::uint64_t max_shard_bytes = std::uint64_t{256} << 20U;
};

// Writes `dir`/step-<n>/ and keeps it, the newest whole generation before it and those of `keep`; all others
// go. Needs memory
// for one shard besides the tensors. The tensors must not change until it ends (checkpoint_writer.h copies).
runtime::Task<Status> save_checkpoint(runtime::Runtime& rt, std::string dir, const Checkpoint& checkpoint,
                                      CheckpointOptions options = {});

// The newest generation whose manifest and hashes are right; a damaged one is skipped with a line in the log.
// kNotFound when none was ever finished; kCorrupt when all that were are damaged.
runtime::Task<Result<Checkpoint>> load_newest_checkpoint(runtime::Runtime& rt, std::string dir);

}  // namespace trireme::io
