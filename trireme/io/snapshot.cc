#include "trireme/io/snapshot.h"

#include <cstring>

#include "trireme/io/generation.h"

namespace trireme::io {

using runtime::ComputeContext;
using runtime::Runtime;
using runtime::Task;

struct Snapshot::Memory {
  std::vector<Buffer> buffers;       // at least as large as the files
  std::vector<std::uint64_t> bytes;  // of the files

  MutByteView file(std::size_t i) const { return {buffers[i].data(), bytes[i]}; }

  Status fit(std::span<const Shard> shards) {
    bytes.clear();
    if (buffers.size() < shards.size()) buffers.resize(shards.size());
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const std::uint64_t need = shards[i].bytes;
      if (buffers[i].is_null() || buffers[i].size_bytes() < need) {
        buffers[i] = Buffer();  // the old one goes before the new one comes
        TR_ASSIGN_OR_RETURN(buffers[i], cpu_device().allocate(need));
      }
      bytes.push_back(need);
    }
    return {};
  }
};

namespace {

struct Part {
  std::size_t file;
  CopyPart part;
};

}  // namespace

Snapshot::Snapshot() : memory_(std::make_shared<Memory>()) {}

std::size_t Snapshot::num_files() const { return memory_->bytes.size(); }
ByteView Snapshot::file(std::size_t index) const { return memory_->file(index); }

Task<Status> Snapshot::take(Runtime& rt, const NamedTensors& tensors, std::span<const Shard> shards) {
  const std::shared_ptr<Memory> memory = memory_;
  TR_CO_RETURN_IF_ERROR(memory->fit(shards));
  std::uint64_t bytes = 0;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::memcpy(memory->file(i).data(), shards[i].header.data(), shards[i].header.size());
    for (const CopyPart& part : copy_parts(tensors, shards[i])) parts.push_back({i, part});
    bytes += shards[i].bytes;
  }
  runtime::ComputeFn copy = [memory, parts = std::move(parts), kept = tensors](ComputeContext& context) {
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        copy_part(kept, parts[i].part, memory->file(parts[i].file));
    };
    context.parallel_for(static_cast<std::int64_t>(parts.size()), body);
  };
  co_await on_pool(rt, 2 * bytes, std::move(copy), rt.compute_threads());
  co_return Status();
}

std::vector<MutByteView> Snapshot::places_to_fill(const NamedTensors& tensors,
                                                  std::span<const Shard> shards) const {
  std::vector<MutByteView> places(tensors.size());
  for (std::size_t i = 0; i < shards.size(); ++i)
    for (std::size_t p = 0; p < shards[i].count; ++p) {
      if (!tensors[shards[i].first + p].second.is_null()) continue;
      const std::uint64_t begin = shards[i].begins[p];
      const std::uint64_t end = p + 1 < shards[i].count ? shards[i].begins[p + 1] : shards[i].bytes;
      places[shards[i].first + p] = memory_->file(i).subspan(begin, end - begin);
    }
  return places;
}

Manifest manifest_of(const CheckpointPart& part, std::span<const Shard> shards) {
  Manifest manifest;
  manifest.step = part.step;
  manifest.state = part.state;
  manifest.keep = part.keep;
  if (has_parts(part.pieces)) manifest.version = kManifestOfPieces;
  for (std::size_t i = 0; i < shards.size(); ++i)
    for (std::size_t t = shards[i].first; t < shards[i].first + shards[i].count; ++t) {
      const parallel::Piece& piece = part.pieces[t].piece;
      ManifestTensor& entry = manifest.tensors.emplace_back();
      entry.name = piece.name;
      entry.file = i;
      entry.type = piece.whole;
      entry.is_piece = manifest.version == kManifestOfPieces;
      entry.box = piece.box;
      entry.range = piece.range;
    }
  return manifest;
}

}  // namespace trireme::io
