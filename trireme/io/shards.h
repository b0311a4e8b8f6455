// How the tensors of a checkpoint are laid out in files. Pure: the layout depends on names, types and order
// alone, so a snapshot can be copied straight to where its bytes will lie in the files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/io/safetensors.h"

namespace trireme::io {

// One safetensors file: tensors [first, first + count).
struct Shard {
  std::string name;  // "tensors-00001-of-00003.safetensors"
  std::size_t first = 0, count = 0;
  Bytes header;             // the file's bytes before the data
  std::uint64_t bytes = 0;  // of the whole file
};

// The name of file `index` (from 0) of `count`.
std::string shard_name(std::size_t index, std::size_t count);

// Tensors in the given order, a new file where `max_shard_bytes` of data would be exceeded; at least one
// file. Refuses what encode_safetensors refuses, for all files together.
Result<std::vector<Shard>> plan_shards(const NamedTensors& tensors, std::uint64_t max_shard_bytes);

// A part of the copying of a shard: parts do not overlap and may run at once.
struct CopyPart {
  std::size_t tensor = 0;
  std::uint64_t from = 0, to = 0, bytes = 0;  // offsets in the tensor and in the file
};
// Parts of at most 1 MiB; a tensor that is not contiguous is one part.
std::vector<CopyPart> copy_parts(const NamedTensors& tensors, const Shard& shard);
// `file` has shard.bytes bytes.
void copy_part(const NamedTensors& tensors, const CopyPart& part, MutByteView file);

}  // namespace trireme::io
