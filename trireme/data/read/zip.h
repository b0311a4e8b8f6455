// Zip archives (PKWARE's APPNOTE 6.3), as far as .npz files need them: stored and deflated members, found
// through the central directory. No encryption, no parts on several disks, nothing beyond 4 GiB (zip64).
#pragma once

#include <string>
#include <vector>

#include "trireme/data/read/inflate.h"

namespace trireme::data {

struct ZipMember {
  std::string name;
  Bytes bytes;
};

// Members in the order of the directory, checksums verified. kCorrupt names `source` and the offset;
// kExhausted when they hold more than `max_bytes` together.
Result<std::vector<ZipMember>> parse_zip(ByteView bytes, std::string_view source,
                                         std::size_t max_bytes = kMaxInflatedBytes);

}  // namespace trireme::data
