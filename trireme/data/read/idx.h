// IDX files, the format of MNIST (LeCun, "The MNIST database", file formats for the MNIST database):
// two zero bytes, a type byte, the number of dimensions, big-endian u32 sizes, big-endian values.
#pragma once

#include "trireme/data/file_array.h"

namespace trireme::data {

// `bytes` are uncompressed (inflate.h). kCorrupt names `source` and the offset. Values past the end of the
// array are damage too.
Result<FileArray> parse_idx(ByteView bytes, std::string_view source);

}  // namespace trireme::data
