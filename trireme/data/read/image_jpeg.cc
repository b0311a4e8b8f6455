// JPEG by libturbojpeg.
#include <memory>

#include "trireme/data/read/image_codec.h"

#ifdef TRIREME_HAVE_TURBOJPEG
#include <turbojpeg.h>
#endif

namespace trireme::data {

#ifdef TRIREME_HAVE_TURBOJPEG

Result<Picture> decode_jpeg(ByteView bytes, std::string_view source, int channels, std::int64_t max_pixels) {
  struct Close {
    void operator()(void* handle) const { tjDestroy(handle); }
  };
  const std::unique_ptr<void, Close> handle(tjInitDecompress());
  if (!handle) return error(Code::kExhausted, "[data] {}: no memory to decode a JPEG", source);
  const auto fail = [&] {
    return error(Code::kCorrupt, "[data] {}, offset 0 to {}: damaged JPEG: {}; remove or replace the file",
                 source, bytes.size(), tjGetErrorStr2(handle.get()));
  };
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (tjDecompressHeader3(handle.get(), data, bytes.size(), &width, &height, &subsampling, &colours) != 0)
    return fail();
  if (colours == TJCS_CMYK || colours == TJCS_YCCK)
    return error(Code::kInvalid, "[data] {}, offset 0: a JPEG for printing (CMYK); convert it to RGB",
                 source);
  TR_RETURN_IF_ERROR(check_picture_size(height, width, source, max_pixels));
  Picture picture{height, width, channels, {}};
  picture.pixels.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
                        static_cast<std::size_t>(channels));
  // The accurate transform: the same bytes on every machine. A file cut short is a warning to the library;
  // here it is an error.
  if (tjDecompress2(handle.get(), data, bytes.size(), picture.pixels.data(), width, 0, height,
                    channels == 3 ? TJPF_RGB : TJPF_GRAY,
                    TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0)
    return fail();
  return picture;
}

#else

Result<Picture> decode_jpeg(ByteView, std::string_view source, int, std::int64_t) {
  return error(Code::kUnavailable,
               "[data] {}: JPEG images need libturbojpeg; install libturbojpeg0-dev and build again", source);
}

#endif

}  // namespace trireme::data
