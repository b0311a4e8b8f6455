// Pictures to PNG (libpng): bytes out, no files.
#pragma once

#include "trireme/data/read/image.h"

namespace trireme::data {

// 1 or 3 channels, 8 bits. kUnavailable: built without the library. kInvalid: no pixels, or fewer or more of
// them than height x width x channels.
Result<Bytes> encode_png(const Picture& picture);

}  // namespace trireme::data
