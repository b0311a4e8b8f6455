// CRC32C (Castagnoli polynomial, RFC 3720 section 12.1): finds accidental damage of frames and files. It is
// not keyed: it proves nothing about who wrote the bytes.
#pragma once

#include <cstdint>

#include "trireme/base/bytes.h"

namespace trireme {

// The checksum of what `crc` covered followed by `bytes`: crc32c(b, crc32c(a)) is that of a and b together.
// Uses the processor's instruction where there is one (SSE4.2), tables otherwise; the value is the same.
std::uint32_t crc32c(ByteView bytes, std::uint32_t crc = 0);

// The table form alone, for machines without the instruction and for tests.
std::uint32_t crc32c_by_table(ByteView bytes, std::uint32_t crc = 0);

}  // namespace trireme
