// PNG by libpng's simplified interface, which writes to memory and reports instead of jumping out.
#include "trireme/data/read/image_encode.h"

#ifdef TRIREME_HAVE_PNG
#include <png.h>
#endif

namespace trireme::data {
namespace {

constexpr std::int64_t kMaxSide = 1 << 20;

Status check_picture(const Picture& p) {
  const bool sides = p.height > 0 && p.width > 0 && p.height <= kMaxSide && p.width <= kMaxSide;
  if (!sides || (p.channels != 1 && p.channels != 3) ||
      static_cast<std::int64_t>(p.pixels.size()) != p.height * p.width * p.channels)
    return error(Code::kInvalid,
                 "[data] a PNG of {} x {} pixels, {} channels and {} values; expected 1 or 3 channels and as "
                 "many values as that takes",
                 p.height, p.width, p.channels, p.pixels.size());
  return {};
}

}  // namespace

#ifdef TRIREME_HAVE_PNG

Result<Bytes> encode_png(const Picture& picture) {
  TR_RETURN_IF_ERROR(check_picture(picture));
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = picture.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Bytes bytes(PNG_IMAGE_PNG_SIZE_MAX(image));
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.pixels.data(), 0, nullptr) == 0) {
    Status status = error(Code::kInternal, "[data] libpng: {}", static_cast<const char*>(image.message));
    png_image_free(&image);
    return status;
  }
  bytes.resize(size);
  return bytes;
}

#else

Result<Bytes> encode_png(const Picture& picture) {
  TR_RETURN_IF_ERROR(check_picture(picture));
  return error(Code::kUnavailable, "[data] PNG images need libpng; install libpng-dev and build again");
}

#endif

}  // namespace trireme::data
