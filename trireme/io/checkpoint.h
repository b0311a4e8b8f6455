// Checkpoints: content-hashed, manifest written last, two generations kept. Layout:
// docs/format_checkpoint.md.
//
// A crash at any moment leaves the previous generation whole: files of the new one are synced before its
// manifest appears, and the old ones are removed only after that.
#pragma once

#include <string>

#include "trireme/base/json.h"
#include "trireme/io/safetensors.h"
#include "trireme/runtime/files.h"

namespace trireme::io {

struct Checkpoint {
  std::int64_t step = 0;  // steps completed
  Json state;             // cursor, counters, seeds: whatever the trainer needs besides tensors
  NamedTensors tensors;   // weights and optimiser state
};

// Writes `dir`/step-<n>/ and keeps it and the newest whole generation before it; all others go.
runtime::Task<Status> save_checkpoint(runtime::Runtime& rt, std::string dir, const Checkpoint& checkpoint);

// The newest generation whose manifest and hashes are right; a damaged one is skipped with a line in the log.
// kNotFound when there is none.
runtime::Task<Result<Checkpoint>> load_newest_checkpoint(runtime::Runtime& rt, std::string dir);

}  // namespace trireme::io
