// Files of a checkpoint that are written chunk by chunk, so that nobody needs memory for a whole one. Used by
// checkpoint_writer.cc.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/io/checkpoint.h"

namespace trireme::io {

// Whether a file has pieces that the part's source brings.
bool is_streamed(const CheckpointPart& part, const Shard& shard);

// Writes file `index` of the generation in folder `path`, under a temporary name and unsynced. While a chunk
// is hashed and written the next one is read. Part and shard outlive it.
runtime::Task<Result<WrittenFile>> stream_shard(runtime::Runtime& rt, std::string path,
                                                const CheckpointPart& part, const Shard& shard,
                                                std::size_t index, std::uint64_t chunk_bytes);
// Syncs a file that was streamed and gives it its name, which takes the place of an older one.
runtime::Task<Status> name_streamed(runtime::Runtime& rt, std::string path, std::string name);
// After a failure: what cannot be removed stays.
runtime::Task<void> discard_streamed(runtime::Runtime& rt, std::string path, std::string name);

}  // namespace trireme::io
