// What image.cc calls: one function per library. Internal to data.
#pragma once

#include "trireme/data/read/image.h"

namespace trireme::data {

Result<Picture> decode_jpeg(ByteView bytes, std::string_view source, int channels, std::int64_t max_pixels);
Result<Picture> decode_png(ByteView bytes, std::string_view source, int channels, std::int64_t max_pixels);

// kExhausted when a picture is larger than allowed, kCorrupt when it has no pixels.
Status check_picture_size(std::int64_t height, std::int64_t width, std::string_view source,
                          std::int64_t max_pixels);

}  // namespace trireme::data
