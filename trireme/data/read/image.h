// Pictures from JPEG (libturbojpeg) and PNG (libpng) files, and cut to one shape.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/base/status.h"
#include "trireme/tensor/shape.h"

namespace trireme::data {

// Row by row, channels of a pixel together.
struct Picture {
  std::int64_t height = 0, width = 0;
  int channels = 0;  // 1: grey, 3: red, green, blue
  std::vector<std::uint8_t> pixels;
};

// Pictures of more pixels are refused before anything is allocated for them.
inline constexpr std::int64_t kMaxPicturePixels = std::int64_t{1} << 26;

// Decodes by the file's first bytes. `channels` 1 or 3: what the caller wants, whatever the file has;
// transparency is dropped, 16 bits become 8. kCorrupt names `source`; kUnavailable: built without the
// library.
Result<Picture> decode_image(ByteView bytes, std::string_view source, int channels,
                             std::int64_t max_pixels = kMaxPicturePixels);

// Whether a file name ends like a picture that decode_image reads.
bool is_image_name(std::string_view name);

// Scaled so that it just covers height x width (triangle filter, widened when shrinking), the middle taken;
// channel planes [C, H, W] in `out`.
void fit_picture(const Picture& picture, std::int64_t height, std::int64_t width,
                 std::span<std::uint8_t> out);

}  // namespace trireme::data
