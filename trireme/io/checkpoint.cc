#include "trireme/io/checkpoint.h"

#include "trireme/io/generation.h"
#include "trireme/io/snapshot.h"

namespace trireme::io {
namespace {

using runtime::Runtime;
using runtime::Task;

// One shard at a time, in one buffer.
Task<Status> write_generation(Runtime& rt, std::string dir, const CheckpointPart& part,
                              const std::vector<Shard>& shards) {
  const std::string path = dir + "/" + generation_name(part.step);
  Manifest manifest = manifest_of(part, shards);
  // A half-written generation of the same step (a crash, then the same step again) has no manifest or the
  // same content.
  TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(path));
  Snapshot snapshot;
  std::vector<WrittenFile> files;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    TR_CO_RETURN_IF_ERROR(co_await snapshot.take(rt, part.tensors, {&shards[i], 1}));
    TR_CO_ASSIGN_OR_RETURN(WrittenFile file, co_await put_shard(rt, path, manifest, shards[i], i,
                                                                snapshot.file(0), snapshot.owner()));
    files.push_back(std::move(file));
  }
  TR_CO_RETURN_IF_ERROR(add_hashes(std::move(files), shards, manifest));
  co_return co_await seal_generation(rt, dir, manifest);
}

}  // namespace

CheckpointPart part_of(Checkpoint checkpoint) {
  CheckpointPart part;
  part.step = checkpoint.step;
  part.state = std::move(checkpoint.state);
  part.keep = std::move(checkpoint.keep);
  part.pieces = whole_pieces(checkpoint.tensors);
  part.tensors = std::move(checkpoint.tensors);
  return part;
}

Task<Status> save_checkpoint(Runtime& rt, std::string dir, const Checkpoint& checkpoint,
                             CheckpointOptions options) {
  const CheckpointPart part = part_of(checkpoint);
  TR_CO_ASSIGN_OR_RETURN(const std::vector<Shard> shards, shards_of(part, options.max_shard_bytes));
  const Status written = co_await write_generation(rt, dir, part, shards);
  if (!written.ok()) co_await discard_generation(rt, dir, checkpoint.step);
  co_return written;
}

Task<Result<Checkpoint>> load_newest_checkpoint(Runtime& rt, std::string dir) {
  const std::vector<std::int64_t> all = co_await list_generations(rt, dir);
  std::string newest_damage;
  for (const std::int64_t step : all) {
    const std::string name = generation_name(step);
    Result<Checkpoint> loaded = co_await load_generation(rt, dir + "/" + name);
    if (loaded.ok()) co_return std::move(loaded);
    rt.log(fmt::format("checkpoint {} is skipped: {}", name, loaded.status().message()));
    const Result<bool> finished = co_await rt.files().exists(dir + "/" + name + "/" + kManifestName);
    if (newest_damage.empty() && finished.ok() && *finished) newest_damage = loaded.status().message();
  }
  if (!newest_damage.empty())
    co_return error(
        Code::kCorrupt,
        "[checkpoint] every checkpoint in {} is damaged; the newest: {}; remove the folder to start "
        "over, or put a copy back",
        dir, newest_damage);
  co_return error(Code::kNotFound, "[checkpoint] no usable checkpoint in {}", dir);
}

}  // namespace trireme::io
