// PNG by libpng's simplified interface, which reads from memory and reports instead of jumping out.
#include "trireme/data/read/image_codec.h"

#ifdef TRIREME_HAVE_PNG
#include <png.h>
#endif

namespace trireme::data {

#ifdef TRIREME_HAVE_PNG

Result<Picture> decode_png(ByteView bytes, std::string_view source, int channels, std::int64_t max_pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto fail = [&] {
    Status status =
        error(Code::kCorrupt, "[data] {}, offset 0 to {}: damaged PNG: {}; remove or replace the file",
              source, bytes.size(), static_cast<const char*>(image.message));
    png_image_free(&image);
    return status;
  };
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) return fail();
  Picture picture{image.height, image.width, channels, {}};
  if (Status size = check_picture_size(picture.height, picture.width, source, max_pixels); !size.ok()) {
    png_image_free(&image);
    return size;
  }
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  picture.pixels.resize(PNG_IMAGE_SIZE(image));
  const png_color black{0, 0, 0};  // what shows through where a picture is transparent
  if (png_image_finish_read(&image, &black, picture.pixels.data(), 0, nullptr) == 0) return fail();
  if (PNG_IMAGE_FAILED(image)) return fail();
  return picture;
}

#else

Result<Picture> decode_png(ByteView, std::string_view source, int, std::int64_t) {
  return error(Code::kUnavailable, "[data] {}: PNG images need libpng; install libpng-dev and build again",
               source);
}

#endif

}  // namespace trireme::data
