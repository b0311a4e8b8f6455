// The folder of one checkpoint, on disk: the steps that saving and loading are made of. Used by
// checkpoint.cc, checkpoint_writer.cc and reader.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/io/checkpoint.h"
#include "trireme/io/manifest.h"
#include "trireme/io/shards.h"

namespace trireme::io {

inline constexpr const char* kManifestName = "manifest.json";

std::string generation_name(std::int64_t step);  // "step-000000469"

// Steps of the generations in `dir`, newest first; other names are not ours. A missing directory has none.
runtime::Task<std::vector<std::int64_t>> list_generations(runtime::Runtime& rt, std::string dir);

// Runs `fn` on the compute pool (inline on a phantom Runtime, which skips compute). `bytes` read and written
// are what virtual time charges. What `fn` refers to must outlive it.
runtime::Task<void> on_pool(runtime::Runtime& rt, std::uint64_t bytes, runtime::ComputeFn fn, int width = 1);

// Keeps bytes alive that a function on the pool reads, also when the Task that waits for it is destroyed.
using Owner = std::shared_ptr<const void>;

// SHA-256 on the pool, a few MiB per request: a training step never waits long for a thread.
runtime::Task<std::string> hash_on_pool(runtime::Runtime& rt, ByteView bytes, Owner owner);

// decode_safetensors on the pool.
runtime::Task<Result<NamedTensors>> decode_on_pool(runtime::Runtime& rt, std::shared_ptr<const Bytes> bytes);

// Hashes and writes one file of the generation in folder `path`.
runtime::Task<Result<ManifestFile>> put_file(runtime::Runtime& rt, std::string path, std::string name,
                                             ByteView bytes, Owner owner);

// The same of shard `index` of a checkpoint. `manifest`: whether it has hashes of pieces, and which types.
runtime::Task<Result<WrittenFile>> put_shard(runtime::Runtime& rt, std::string path, const Manifest& manifest,
                                             const Shard& shard, std::size_t index, ByteView bytes,
                                             Owner owner);
// Puts the hashes of all files of a generation where they belong. kCorrupt: some are missing.
Status add_hashes(std::vector<WrittenFile> files, std::span<const Shard> shards, Manifest& manifest);
// The shards of a part, if its memory is there.
Result<std::vector<Shard>> shards_of(const CheckpointPart& part, std::uint64_t max_shard_bytes);

// Writes the manifest, which makes the generation whole, then removes files that it does not name and
// generations that are no longer kept.
runtime::Task<Status> seal_generation(runtime::Runtime& rt, std::string dir, const Manifest& manifest);

// After a failure: removes the folder unless it is whole. What cannot be removed stays.
runtime::Task<void> discard_generation(runtime::Runtime& rt, std::string dir, std::int64_t step);

runtime::Task<Result<Manifest>> load_manifest(runtime::Runtime& rt, std::string path);
// Reads file `file` of a manifest and checks size, hash and tensors.
runtime::Task<Result<NamedTensors>> load_file(runtime::Runtime& rt, std::string path,
                                              const Manifest& manifest, std::size_t file);
// The generation in folder `path`, whole or an error. Tensors that are in pieces are put together.
runtime::Task<Result<Checkpoint>> load_generation(runtime::Runtime& rt, std::string path);

}  // namespace trireme::io
