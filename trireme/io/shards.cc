#include "trireme/io/shards.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace trireme::io {
namespace {

constexpr std::uint64_t kPartBytes = std::uint64_t{1} << 20U;

Status check_unique(std::span<const StoredPiece> pieces) {
  std::set<std::string> names;
  for (const StoredPiece& p : pieces)
    if (!names.insert(stored_name(p.piece)).second)
      return error(Code::kInvalid, "[checkpoint] tensor '{}' is there twice", stored_name(p.piece));
  return {};
}

}  // namespace

std::string shard_name(std::size_t index, std::size_t count) {
  return fmt::format("tensors-{:05}-of-{:05}.safetensors", index + 1, count);
}

std::string stored_name(const parallel::Piece& piece) {
  return piece == parallel::Piece::of_whole(piece.name, piece.whole) ? piece.name : piece.to_text();
}

TensorType stored_type(const parallel::Piece& piece) {
  if (!piece.is_box()) return {piece.whole.dtype, {piece.elems()}};
  TensorType type = piece.whole;
  for (std::size_t d = 0; d < piece.box.size(); ++d) type.shape.set(static_cast<int>(d), piece.box[d].size());
  return type;
}

std::vector<StoredPiece> whole_pieces(const NamedTensors& tensors) {
  std::vector<StoredPiece> pieces;
  for (const auto& [name, tensor] : tensors)
    pieces.push_back({parallel::Piece::of_whole(name, tensor.type())});
  return pieces;
}

bool has_parts(std::span<const StoredPiece> pieces) {
  return std::any_of(pieces.begin(), pieces.end(), [](const StoredPiece& p) {
    return p.piece != parallel::Piece::of_whole(p.piece.name, p.piece.whole);
  });
}

Result<std::vector<Shard>> plan_shards(std::span<const StoredPiece> pieces, std::uint64_t max_shard_bytes) {
  TR_RETURN_IF_ERROR(check_unique(pieces));
  std::vector<NamedType> types;
  for (const StoredPiece& p : pieces) types.emplace_back(stored_name(p.piece), stored_type(p.piece));
  std::vector<Shard> shards(1);
  if (!pieces.empty()) shards[0].writer = pieces[0].writer;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::uint64_t bytes = types[i].second.num_bytes();
    const bool fits =
        shards.back().bytes <= max_shard_bytes && bytes <= max_shard_bytes - shards.back().bytes;
    if (shards.back().count > 0 && (!fits || shards.back().writer != pieces[i].writer)) {
      Shard next;
      next.first = shards.back().first + shards.back().count;
      next.writer = pieces[i].writer;
      shards.push_back(std::move(next));
    }
    ++shards.back().count;
    shards.back().bytes += bytes;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    Shard& shard = shards[i];
    shard.name = shard_name(i, shards.size());
    TR_ASSIGN_OR_RETURN(shard.header,
                        encode_safetensors_header(std::span(types).subspan(shard.first, shard.count)));
    shard.bytes += shard.header.size();
    std::uint64_t at = shard.header.size();
    for (std::size_t t = shard.first; t < shard.first + shard.count; ++t) {
      shard.begins.push_back(at);
      at += types[t].second.num_bytes();
    }
  }
  return shards;
}

std::vector<CopyPart> copy_parts(const NamedTensors& tensors, const Shard& shard) {
  std::vector<CopyPart> parts;
  for (std::size_t i = shard.first; i < shard.first + shard.count; ++i) {
    const Tensor& tensor = tensors[i].second;
    if (tensor.is_null()) continue;
    const std::uint64_t at = shard.begins[i - shard.first];
    const std::uint64_t bytes = tensor.type().num_bytes();
    const std::uint64_t step = tensor.is_contiguous() ? kPartBytes : std::max<std::uint64_t>(bytes, 1);
    for (std::uint64_t from = 0; from < bytes; from += step)
      parts.push_back({i, from, at + from, std::min(step, bytes - from)});
  }
  return parts;
}

void copy_part(const NamedTensors& tensors, const CopyPart& part, MutByteView file) {
  const Tensor& tensor = tensors[part.tensor].second;
  std::byte* to = file.subspan(part.to, part.bytes).data();
  if (tensor.is_contiguous()) {
    std::memcpy(to, tensor.raw() + part.from, part.bytes);
    return;
  }
  // In a file a tensor may begin at any byte, and elements are copied as words: by way of aligned memory.
  const Tensor rows = *Tensor::allocate(cpu_device(), tensor.type());
  copy_to_contiguous(tensor, rows);
  std::memcpy(to, rows.raw(), part.bytes);
}

}  // namespace trireme::io
