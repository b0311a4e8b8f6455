// Checkpoints: shards of tensors, content-hashed, manifest written last, two generations kept. Layout:
// docs/format_checkpoint.md.
//
// A crash at any moment leaves the previous generation whole: files of the new one are synced before its
// manifest appears, and the old ones are removed only after that. A save that fails takes away what it wrote.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/io/manifest.h"
#include "trireme/io/shards.h"
#include "trireme/runtime/files.h"

namespace trireme::io {

struct Checkpoint {
  std::int64_t step = 0;  // steps completed
  Json state;             // cursor, counters, seeds: whatever the trainer needs besides tensors
  NamedTensors tensors;   // weights and optimiser state
  // Generations of these steps stay when older ones are removed; not written down.
  std::vector<std::int64_t> keep = {};
};

// A file as it was written: its place among the files of the generation, and the hashes of its pieces where
// the manifest has them.
struct WrittenFile {
  std::size_t index = 0;
  ManifestFile file;
  std::vector<std::string> pieces_sha256 = {};
};

// What one writer writes of a checkpoint. All writers know all pieces, so they agree on the files without a
// word: each writes those of its pieces, and one of them the manifest, once it knows the files of all.
struct CheckpointPart {
  // Ends the generation: gets the manifest without hashes, and the files that this writer has written or why
  // it could not.
  using Seal = std::function<runtime::Task<Status>(Manifest manifest, Result<std::vector<WrittenFile>> own)>;
  // Gets where the bytes of pieces belong that this writer writes and has no memory of: per piece, empty of
  // all others.
  using Fill = std::function<runtime::Task<Status>(std::vector<MutByteView> to)>;
  // Reads the bytes of a piece from byte `begin` on; `to` stays until it ends. Several reads may be under
  // way.
  using Source = std::function<runtime::Task<Status>(std::size_t piece, std::uint64_t begin, MutByteView to)>;

  std::int64_t step = 0;
  Json state;
  std::vector<std::int64_t> keep = {};
  std::vector<StoredPiece> pieces;  // of all writers
  // Per piece its memory; null where another writes it, or where `fill` or `source` brings it.
  NamedTensors tensors;
  int writer = 0;
  // Null: there are no other writers, and the manifest is written here.
  Seal seal = nullptr;
  // Both null: the memory of all pieces is here. With `source` pieces are whole tensors, and a file that has
  // one without memory is written chunk by chunk while CheckpointWriter::begin runs, without a copy.
  Fill fill = nullptr;
  Source source = nullptr;
};
// All of it, by one writer.
CheckpointPart part_of(Checkpoint checkpoint);

struct CheckpointOptions {
  // Tensors of at most so many bytes share a file; a larger tensor has one of its own.
  std::uint64_t max_shard_bytes = std::uint64_t{256} << 20U;
  // A file whose pieces CheckpointPart::source brings is written in chunks of so many bytes, of which two are
  // in memory.
  std::uint64_t chunk_bytes = std::uint64_t{4} << 20U;
};

// Writes `dir`/step-<n>/ and keeps it, the newest whole generation before it and those of `keep`; all
// others go. Needs memory for one shard besides the tensors. The tensors must not change until it ends
// (checkpoint_writer.h copies).
runtime::Task<Status> save_checkpoint(runtime::Runtime& rt, std::string dir, const Checkpoint& checkpoint,
                                      CheckpointOptions options = {});

// The newest generation whose manifest and hashes are right; a damaged one is skipped with a line in the log.
// kNotFound when none was ever finished; kCorrupt when all that were are damaged.
runtime::Task<Result<Checkpoint>> load_newest_checkpoint(runtime::Runtime& rt, std::string dir);

}  // namespace trireme::io
