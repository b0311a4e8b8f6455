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
  std::vector<Shard> shards;             // of the snapshot
  Manifest manifest;                     // of the snapshot; files are added as they are written
  std::optional<OneShot<Status>> write;  // set when a write under way or not yet reported ended
  std::int64_t last_written_step = -1;
  CheckpointWriterStats stats;

  Task<Status> write_files() {
    const std::string path = dir + "/" + generation_name(manifest.step);
    TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(path));
    for (std::size_t i = 0; i < shards.size(); ++i) {
      Result<ManifestFile> file =
          co_await put_file(rt, path, shards[i].name, snapshot.file(i), snapshot.owner());
      if (!file.ok()) co_return file.status();
      stats.bytes += file->bytes;
      manifest.files.push_back(std::move(*file));
    }
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
  const std::shared_ptr<State> s = state_;
  TR_CO_RETURN_IF_ERROR(co_await s->join(max_wait));
  const TimeNs before = s->rt.now();
  TR_CO_ASSIGN_OR_RETURN(s->shards, plan_shards(checkpoint.tensors, s->options.max_shard_bytes));
  s->manifest = manifest_of(checkpoint, s->shards);
  TR_CO_RETURN_IF_ERROR(co_await s->snapshot.take(s->rt, checkpoint.tensors, s->shards));
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

bool CheckpointWriter::writing() const { return state_->write && !state_->write->is_set(); }
std::int64_t CheckpointWriter::last_written_step() const { return state_->last_written_step; }
const CheckpointWriterStats& CheckpointWriter::stats() const { return state_->stats; }

}  // namespace trireme::io
