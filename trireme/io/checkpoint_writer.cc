#include "trireme/io/checkpoint_writer.h"

#include <optional>

#include "trireme/io/generation.h"
#include "trireme/io/shard_stream.h"
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
  std::vector<std::size_t> to_stream;    // those that are written before begin() returns
  std::vector<WrittenFile> streamed;     // of these, what was written under a temporary name
  Manifest manifest;                     // without hashes
  CheckpointPart::Seal seal;             // null: the manifest is written here
  std::optional<OneShot<Status>> write;  // set when a write under way or not yet reported ended
  std::int64_t last_written_step = -1;
  CheckpointWriterStats stats;

  std::string path() const { return dir + "/" + generation_name(manifest.step); }

  // Which shards of this writer are streamed; the others, which are copied.
  std::vector<Shard> sort_own(const CheckpointPart& part) {
    own.clear();
    to_stream.clear();
    std::vector<Shard> copied;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (shards[i].writer != part.writer) continue;
      if (is_streamed(part, shards[i])) {
        to_stream.push_back(i);
      } else {
        own.push_back(i);
        copied.push_back(shards[i]);
      }
    }
    return copied;
  }

  Task<Status> stream(const CheckpointPart& part) {
    streamed.clear();
    if (to_stream.empty()) co_return Status();
    TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(path()));
    for (const std::size_t i : to_stream) {
      TR_CO_ASSIGN_OR_RETURN(WrittenFile file,
                             co_await stream_shard(rt, path(), part, shards[i], i, options.chunk_bytes));
      streamed.push_back(std::move(file));
    }
    co_return Status();
  }

  // After a failure, whose status is `why`. Temporary files of other writers are theirs.
  Task<Status> give_up(Status why) {
    for (const std::size_t i : to_stream) co_await discard_streamed(rt, path(), shards[i].name);
    co_await discard_generation(rt, dir, manifest.step);
    co_return why.with_prefix(fmt::format("the checkpoint of step {} was not written: ", manifest.step));
  }

  Task<Result<std::vector<WrittenFile>>> write_own() {
    std::vector<WrittenFile> files;
    TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(path()));
    for (const WrittenFile& file : streamed) {
      TR_CO_RETURN_IF_ERROR(co_await name_streamed(rt, path(), file.file.name));
      stats.bytes += file.file.bytes;
      files.push_back(file);
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      TR_CO_ASSIGN_OR_RETURN(
          WrittenFile file, co_await put_shard(rt, path(), manifest, shards[own[i]], own[i], snapshot.file(i),
                                               snapshot.owner()));
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
      end = co_await s->give_up(std::move(end));
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
  const std::vector<Shard> copied = s->sort_own(part);
  TR_CO_RETURN_IF_ERROR(co_await s->snapshot.take(s->rt, part.tensors, copied));
  if (part.fill) TR_CO_RETURN_IF_ERROR(co_await part.fill(s->snapshot.places_to_fill(part.tensors, copied)));
  Status streamed = co_await s->stream(part);
  if (!streamed.ok()) co_return co_await s->give_up(std::move(streamed));
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
