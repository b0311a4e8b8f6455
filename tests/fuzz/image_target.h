// One input of the picture decoder's fuzz target: grey and in colour, cut to a shape.
#pragma once

#include "trireme/data/read/image.h"

namespace trireme::data {

inline bool run_image_target(ByteView bytes) {
  bool any = false;
  for (const int channels : {1, 3}) {
    const Result<Picture> picture = decode_image(bytes, "x", channels, 1 << 14);
    if (!picture.ok()) continue;
    any = true;
    TR_CHECK(picture->height * picture->width <= 1 << 14 && picture->channels == channels);
    TR_CHECK(static_cast<std::int64_t>(picture->pixels.size()) ==
             picture->height * picture->width * channels);
    std::vector<std::uint8_t> out(static_cast<std::size_t>(channels * 5 * 7));
    fit_picture(*picture, 5, 7, out);
  }
  return any;
}

}  // namespace trireme::data
