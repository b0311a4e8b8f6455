// One input of the manifest reader's fuzz target. A manifest ends with the hash of all before it, which edits
// would never get right: inputs are read as they are and with their last brace replaced by a right ending.
// What is read, written and read again is the same; files lie in the generation's own folder.
#pragma once

#include "trireme/base/bytes.h"
#include "trireme/base/hash.h"
#include "trireme/io/manifest.h"

namespace trireme::io {

inline std::string sealed(std::string_view text) {
  const std::string_view before = text.substr(0, text.rfind('}'));
  return fmt::format("{},\n  \"manifest_sha256\": \"{}\"\n}}\n", before, sha256_hex(as_bytes(before)));
}

inline bool try_manifest(std::string_view text) {
  const Result<Manifest> manifest = parse_manifest(text, "manifest.json");
  if (!manifest.ok()) {
    TR_CHECK(!manifest.status().message().empty());
    return false;
  }
  for (const ManifestFile& file : manifest->files)
    TR_CHECK(!file.name.empty() && file.name.find('/') == std::string::npos && file.name[0] != '.', "{}",
             file.name);
  for (const ManifestTensor& tensor : manifest->tensors) TR_CHECK(tensor.file < manifest->files.size());
  for (std::size_t file = 0; file < manifest->files.size(); ++file)
    (void)check_tensors(*manifest, file, NamedTensors());
  if (manifest->version == 1) return true;  // it is no longer written
  const std::string written = manifest_text(*manifest);
  const Result<Manifest> second = parse_manifest(written, "again.json");
  TR_CHECK(second.ok(), "{}", second.status().to_string());
  TR_CHECK(manifest_text(*second) == written);
  return true;
}

inline bool run_manifest_target(ByteView bytes) {
  const std::string_view text = as_text(bytes);
  const bool as_it_is = try_manifest(text);
  return try_manifest(sealed(text)) || as_it_is;
}

}  // namespace trireme::io
