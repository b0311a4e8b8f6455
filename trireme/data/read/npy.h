// NumPy's array files: .npy (NEP 1, versions 1 to 3 of the format) and .npz, a zip archive of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/data/file_array.h"
#include "trireme/data/read/inflate.h"

namespace trireme::data {

// Booleans, integers and floats of either byte order, C or Fortran order; no objects, records, complex
// numbers or text. kCorrupt names `source` and the offset.
Result<FileArray> parse_npy(ByteView bytes, std::string_view source);

// Arrays by name, without ".npy", in the order of the archive.
using NamedArrays = std::vector<std::pair<std::string, FileArray>>;
Result<NamedArrays> parse_npz(ByteView bytes, std::string_view source,
                              std::size_t max_bytes = kMaxInflatedBytes);

}  // namespace trireme::data
