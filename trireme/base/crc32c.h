// CRC32C (Castagnoli polynomial, RFC 3720 section 12.1): finds accidental damage of frames and files. It is
// not keyed: it proves nothing about who wrote the bytes.
#pragma once

#include <cstdint>

#include "trireme/base/bytes.h"

namespace trireme {

// The checksum of what `crc` covered followed by `bytes`: crc32c(b, crc32c(a)) is that of a and b together.
// Uses what the processor has (SSE4.2's instruction; for long runs AVX-512's carry-less products), tables
// otherwise; the value is the same.
std::uint32_t crc32c(ByteView bytes, std::uint32_t crc = 0);

// The simpler forms alone, for tests: by tables, and by SSE4.2's instruction (where there is none, by
// tables).
std::uint32_t crc32c_by_table(ByteView bytes, std::uint32_t crc = 0);
std::uint32_t crc32c_by_instruction(ByteView bytes, std::uint32_t crc = 0);

}  // namespace trireme
