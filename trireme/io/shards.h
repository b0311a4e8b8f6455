// How the tensors of a checkpoint are laid out in files. Pure: the layout depends on names, types and order
// alone, so a snapshot can be copied straight to where its bytes will lie in the files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/io/safetensors.h"
#include "trireme/parallel/piece.h"

namespace trireme::io {

// The name and type of a piece in its file: those of the tensor where it is the whole, else its text
// ("fc/weight[0:2, 0:5]") and the shape of its box, or the number of elements of a flat range.
std::string stored_name(const parallel::Piece& piece);
TensorType stored_type(const parallel::Piece& piece);

// A piece of a checkpoint, and which of several writers writes it.
struct StoredPiece {
  parallel::Piece piece;
  int writer = 0;
};
// Whole tensors of one writer.
std::vector<StoredPiece> whole_pieces(const NamedTensors& tensors);
// Whether some are less than their tensor: then the manifest says which (version 3).
bool has_parts(std::span<const StoredPiece> pieces);

// One safetensors file: pieces [first, first + count), all of one writer.
struct Shard {
  std::string name;  // "tensors-00001-of-00003.safetensors"
  std::size_t first = 0, count = 0;
  Bytes header;             // the file's bytes before the data
  std::uint64_t bytes = 0;  // of the whole file
  int writer = 0;
  std::vector<std::uint64_t> begins = {};  // where each piece begins in the file
};

// The name of file `index` (from 0) of `count`.
std::string shard_name(std::size_t index, std::size_t count);

// Pieces in the given order, a new file where the writer changes or `max_shard_bytes` of data would be
// exceeded; at least one file. Refuses what encode_safetensors refuses, for all files together.
Result<std::vector<Shard>> plan_shards(std::span<const StoredPiece> pieces, std::uint64_t max_shard_bytes);

// A part of the copying of a shard: parts do not overlap and may run at once.
struct CopyPart {
  std::size_t tensor = 0;
  std::uint64_t from = 0, to = 0, bytes = 0;  // offsets in the tensor and in the file
};
// Parts of at most 1 MiB; a tensor that is not contiguous is one part. `tensors`: the memory of the pieces,
// null where it is not here.
std::vector<CopyPart> copy_parts(const NamedTensors& tensors, const Shard& shard);
// `file` has shard.bytes bytes.
void copy_part(const NamedTensors& tensors, const CopyPart& part, MutByteView file);

}  // namespace trireme::io
