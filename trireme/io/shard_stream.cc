#include "trireme/io/shard_stream.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/hash.h"
#include "trireme/io/generation.h"
#include "trireme/runtime/sync.h"

namespace trireme::io {
namespace {

using runtime::Runtime;
using runtime::Task;

std::string temporary_name(const std::string& path, const std::string& name) {
  return fmt::format("{}/{}.tmp", path, name);
}

// One file on its way to the disk. Two chunks take turns.
class ShardStream {
 public:
  ShardStream(Runtime& rt, std::string file, const CheckpointPart& part, const Shard& shard)
      : rt_(rt), file_(std::move(file)), part_(part), shard_(shard) {}

  Task<Result<std::string>> write(std::uint64_t chunk_bytes) {
    chunk_bytes = std::min(std::max<std::uint64_t>(chunk_bytes, 1), shard_.bytes);
    Buffer now, next;
    TR_CO_ASSIGN_OR_RETURN(now, cpu_device().allocate(chunk_bytes));
    if (chunk_bytes < shard_.bytes) {
      TR_CO_ASSIGN_OR_RETURN(next, cpu_device().allocate(chunk_bytes));
    }
    TR_CO_RETURN_IF_ERROR(co_await read(now, 0, chunk_bytes));
    for (std::uint64_t at = 0; at < shard_.bytes; at += chunk_bytes) {
      const std::uint64_t end = std::min(at + chunk_bytes, shard_.bytes);
      std::vector<Task<Status>> work;
      work.push_back(hash(now, end - at));
      work.push_back(append(now, at, end - at));
      if (end < shard_.bytes) work.push_back(read(next, end, std::min(end + chunk_bytes, shard_.bytes)));
      TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(work)));
      std::swap(now, next);
    }
    co_return hash_->hex_digest();
  }

 private:
  // The hash and the bytes are shared with the function: a Task that is destroyed does not stop a request
  // that runs.
  Task<Status> hash(Buffer chunk, std::uint64_t bytes) {
    runtime::ComputeFn fn = [hash = hash_, chunk, bytes](runtime::ComputeContext&) {
      hash->update(ByteView{chunk.data(), bytes});
    };
    co_await on_pool(rt_, bytes, std::move(fn));
    co_return Status();
  }

  Task<Status> append(Buffer chunk, std::uint64_t at, std::uint64_t bytes) {
    const ByteView view{chunk.data(), bytes};
    if (at == 0) co_return co_await rt_.files().write(file_, view);
    co_return co_await rt_.files().append(file_, view);
  }

  // Bytes [begin, end) of the file: its header, then one piece after the other.
  Task<Status> read(Buffer chunk, std::uint64_t begin, std::uint64_t end) {
    std::vector<Task<Status>> reads;
    const std::uint64_t header = shard_.header.size();
    if (begin < header)
      std::memcpy(chunk.data(), shard_.header.data() + begin, std::min(end, header) - begin);
    for (std::size_t i = 0; i < shard_.count; ++i) {
      const std::uint64_t first = shard_.begins[i];
      const std::uint64_t last = i + 1 < shard_.count ? shard_.begins[i + 1] : shard_.bytes;
      const std::uint64_t from = std::max(begin, first), to = std::min(end, last);
      if (from >= to) continue;
      const MutByteView place{chunk.data() + (from - begin), to - from};
      const std::size_t piece = shard_.first + i;
      const Tensor& memory = part_.tensors[piece].second;
      if (memory.is_null())
        reads.push_back(part_.source(piece, from - first, place));
      else
        std::memcpy(place.data(), memory.raw() + (from - first), place.size());
    }
    co_return co_await runtime::when_all(rt_, std::move(reads));
  }

  Runtime& rt_;
  const std::string file_;
  const CheckpointPart& part_;
  const Shard& shard_;
  const std::shared_ptr<Sha256> hash_ = std::make_shared<Sha256>();
};

}  // namespace

bool is_streamed(const CheckpointPart& part, const Shard& shard) {
  if (!part.source) return false;
  const auto first = part.tensors.begin() + static_cast<std::ptrdiff_t>(shard.first);
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(shard.count),
                     [](const NamedTensor& named) { return named.second.is_null(); });
}

Task<Result<WrittenFile>> stream_shard(Runtime& rt, std::string path, const CheckpointPart& part,
                                       const Shard& shard, std::size_t index, std::uint64_t chunk_bytes) {
  WrittenFile written;
  written.index = index;
  written.file.name = shard.name;
  written.file.bytes = shard.bytes;
  ShardStream stream(rt, temporary_name(path, shard.name), part, shard);
  TR_CO_ASSIGN_OR_RETURN(written.file.sha256, co_await stream.write(chunk_bytes));
  co_return written;
}

Task<Status> name_streamed(Runtime& rt, std::string path, std::string name) {
  const std::string file = temporary_name(path, name);
  TR_CO_RETURN_IF_ERROR(co_await rt.files().sync(file));
  TR_CO_RETURN_IF_ERROR(co_await rt.files().rename(file, path + "/" + name));
  co_return co_await rt.files().sync(path);
}

Task<void> discard_streamed(Runtime& rt, std::string path, std::string name) {
  (void)co_await rt.files().remove_all(temporary_name(path, name));
}

}  // namespace trireme::io
