// The manifest of a generation: what it holds, with hashes. Text in, text out: no files here. Layout:
// docs/format_checkpoint.md section 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/io/safetensors.h"
#include "trireme/parallel/piece.h"

namespace trireme::io {

// 2: every tensor is in one file, as a whole. 3: tensors are in pieces. Version 1 is still read.
inline constexpr int kManifestVersion = 2, kManifestOfPieces = 3;

struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;  // 64 lower-case hexadecimal digits
};

// A piece of a tensor; before version 3 the whole of it.
struct ManifestTensor {
  std::string name;
  std::size_t file = 0;  // index in Manifest::files
  TensorType type;       // of the whole tensor
  // Version 3: which piece it is, and the hash of its bytes.
  bool is_piece = false;
  parallel::Box box = {};
  parallel::Interval range = {};
  std::string sha256 = {};

  parallel::Piece piece() const;
};

struct Manifest {
  int version = kManifestVersion;
  std::int64_t step = 0;
  std::vector<ManifestFile> files;
  // In the order of the files; version 1 does not say. Version 3: the pieces of a tensor hold each of its
  // elements once.
  std::vector<ManifestTensor> tensors;
  Json state;
  std::vector<std::int64_t> keep = {};  // Checkpoint::keep; not part of the text
};

std::string manifest_text(const Manifest& manifest);

// `source` names the text in errors. Names of files are exactly those the format prescribes, so nothing a
// manifest says leads out of its folder.
Result<Manifest> parse_manifest(std::string_view text, std::string_view source);

// A hash of all that a manifest says of tensors and files: equal where two ranks see the same checkpoint.
std::string content_sha256(const Manifest& manifest);

// Does file `file` hold the tensors that the manifest says, in that order? Always true of version 1.
Status check_tensors(const Manifest& manifest, std::size_t file, const NamedTensors& tensors);

}  // namespace trireme::io
