#include "trireme/io/checkpoint_writer.h"

#include <optional>

#include "trireme/io/generation.h"
#include "trireme/io/snapshot.h"
#include "trireme/runtime/sync.h"

namespace trireme::io {

using runtime::OneShot;
using runtime::Runtime;
using runtime::Task;

struct CheckpointWriter::State {
  State(Runtime& runtime, std::string folder, CheckpointOptions o)
      : rt(runtime), dir(std::move(folder)), options(o) {}

  Runtime& rt;
  std::string dir;
  CheckpointOptions options;
  Snapshot snapshot;
  std::vector<Shard> shards;             // of the generation
  std::vector<std::size_t> own;          // those in the snapshot
  Manifest manifest;                     // without hashes
  CheckpointPart::Seal seal;             // null: the manifest is written here
  std::optional<OneShot<Status>> write;  // set when a write under way or not yet reported ended
  std::int64_t last_written_step = -1;
  CheckpointWriterStats stats;

  Task<Result<std::vector<WrittenFile>>> write_own() {
    const std::string path = dir + "/" + generation_name(manifest.step);
    std::vector<WrittenFile> files;
    TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(path));
    for (std::size_t i = 0; i < own.size(); ++i) {
      TR_CO_ASSIGN_OR_RETURN(WrittenFile file, co_await put_shard(rt, path, manifest, shards[own[i]], own[i],
                                                                  snapshot.file(i), snapshot.owner()));
      stats.bytes += file.file.bytes;
      files.push_back(std::move(file));
    }
    co_return files;
  }

  Task<Status> write_files() {
    Result<std::vector<WrittenFile>> files = co_await write_own();
    if (seal) co_return co_await seal(manifest, std::move(files));
    if (!files.ok()) co_return files.status();
    TR_CO_RETURN_IF_ERROR(add_hashes(std::move(*files), shards, manifest));
    co_return co_await seal_generation(rt, dir, manifest);
  }

  // Waits for the write under way and takes its end.
  Task<Status> join(TimeNs max_wait) {
    if (!write) co_return Status();
    const TimeNs before = rt.now();
    const TimeNs deadline = max_wait < kForever - before ? before + max_wait : kForever;
    const bool ended = co_await write->wait_until(deadline);
    stats.waited_ns += rt.now() - before;
    if (!ended)
      co_return error(Code::kDeadline,
                      "[checkpoint] the checkpoint of step {} is still being written to {} after {}; is the "
                      "disk slow or stuck?",
                      manifest.step, dir, format_duration(max_wait));
    const Status end = write->value();
    write.reset();
    co_return end;
  }

  // Keeps the state alive until the write has ended.
  static Task<void> run_write(std::shared_ptr<State> s) {
    const TimeNs before = s->rt.now();
    Status end = co_await s->write_files();
    if (end.ok()) {
      ++s->stats.written;
      s->last_written_step = s->manifest.step;
    } else {
      co_await discard_generation(s->rt, s->dir, s->manifest.step);
      end = end.with_prefix(fmt::format("the checkpoint of step {} was not written: ", s->manifest.step));
    }
    s->stats.write_ns += s->rt.now() - before;
    s->write->set(std::move(end));
  }
};

CheckpointWriter::CheckpointWriter(Runtime& rt, std::string dir, CheckpointOptions options)
    : state_(std::make_shared<State>(rt, std::move(dir), options)) {}
CheckpointWriter::~CheckpointWriter() = default;

Task<Status> CheckpointWriter::begin(Checkpoint checkpoint, TimeNs max_wait) {
  return begin(part_of(std::move(checkpoint)), max_wait);
}

Task<Status> CheckpointWriter::begin(CheckpointPart part, TimeNs max_wait) {
  const std::shared_ptr<State> s = state_;
  TR_CO_RETURN_IF_ERROR(co_await s->join(max_wait));
  const TimeNs before = s->rt.now();
  TR_CO_ASSIGN_OR_RETURN(s->shards, shards_of(part, s->options.max_shard_bytes));
  s->manifest = manifest_of(part, s->shards);
  s->seal = std::move(part.seal);
  s->own.clear();
  std::vector<Shard> own;
  for (std::size_t i = 0; i < s->shards.size(); ++i)
    if (s->shards[i].writer == part.writer) {
      s->own.push_back(i);
      own.push_back(s->shards[i]);
    }
  TR_CO_RETURN_IF_ERROR(co_await s->snapshot.take(s->rt, part.tensors, own));
  if (part.fill) TR_CO_RETURN_IF_ERROR(co_await part.fill(s->snapshot.places_to_fill(part.tensors, own)));
  ++s->stats.snapshots;
  s->stats.snapshot_ns += s->rt.now() - before;
  s->write.emplace(s->rt);
  s->rt.spawn(State::run_write(s));
  co_return Status();
}

Task<Status> CheckpointWriter::finish(TimeNs max_wait) {
  const std::shared_ptr<State> s = state_;
  co_return co_await s->join(max_wait);
}

const CheckpointOptions& CheckpointWriter::options() const { return state_->options; }
bool CheckpointWriter::writing() const { return state_->write && !state_->write->is_set(); }
std::int64_t CheckpointWriter::last_written_step() const { return state_->last_written_step; }
const CheckpointWriterStats& CheckpointWriter::stats() const { return state_->stats; }

}  // namespace trireme::io
