// The manifest of a generation: what it holds, with hashes. Text in, text out: no files here. Layout:
// docs/format_checkpoint.md section 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/io/safetensors.h"

namespace trireme::io {

inline constexpr int kManifestVersion = 2;  // version 1 is still read

struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;  // 64 lower-case hexadecimal digits
};

struct ManifestTensor {
  std::string name;
  std::size_t file = 0;  // index in Manifest::files
  TensorType type;
};

struct Manifest {
  int version = kManifestVersion;
  std::int64_t step = 0;
  std::vector<ManifestFile> files;
  std::vector<ManifestTensor> tensors;  // in the order of the files; version 1 does not say
  Json state;
  std::vector<std::int64_t> keep = {};  // Checkpoint::keep; not part of the text
};

std::string manifest_text(const Manifest& manifest);

// `source` names the text in errors. Names of files are exactly those the format prescribes, so nothing a
// manifest says leads out of its folder.
Result<Manifest> parse_manifest(std::string_view text, std::string_view source);

// Does file `file` hold the tensors that the manifest says, in that order? Always true of version 1.
Status check_tensors(const Manifest& manifest, std::size_t file, const NamedTensors& tensors);

}  // namespace trireme::io
