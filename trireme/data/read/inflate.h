// Decompression by zlib: gzip files and the raw deflate streams inside zip archives. Pure; thread-safe.
#pragma once

#include <string_view>

#include "trireme/base/bytes.h"
#include "trireme/base/status.h"

namespace trireme::data {

// The most that a compressed file may hold; more is refused, so that a few bytes cannot fill the memory.
inline constexpr std::size_t kMaxInflatedBytes = std::size_t{8} << 30;

bool is_gzip(ByteView bytes);

// All members of a gzip file, joined. kCorrupt names `source` and the offset in the compressed bytes.
Result<Bytes> gunzip(ByteView bytes, std::string_view source, std::size_t max_bytes = kMaxInflatedBytes);

// A gzip file's content, any other bytes as they are.
Result<Bytes> gunzip_if_needed(Bytes bytes, std::string_view source);

// A raw deflate stream that must give exactly `size` bytes. `offset` is where `bytes` starts in `source`.
Result<Bytes> inflate_raw(ByteView bytes, std::size_t size, std::string_view source, std::size_t offset);

// The checksum of zip archives.
std::uint32_t crc32_of(ByteView bytes);

}  // namespace trireme::data
