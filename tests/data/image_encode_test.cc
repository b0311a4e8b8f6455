#include "trireme/data/read/image_encode.h"

#include <gtest/gtest.h>

namespace trireme::data {
namespace {

Picture gradient(std::int64_t height, std::int64_t width, int channels) {
  Picture p{height, width, channels, {}};
  for (std::int64_t i = 0; i < height * width * channels; ++i)
    p.pixels.push_back(static_cast<std::uint8_t>(i * 37 % 256));
  return p;
}

TEST(ImageEncode, WhatIsWrittenIsReadBack) {
  for (const int channels : {1, 3}) {
    const Picture picture = gradient(5, 7, channels);
    const Result<Bytes> bytes = encode_png(picture);
    ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
    const Result<Picture> back = decode_image(*bytes, "memory", channels);
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_EQ(back->height, 5);
    EXPECT_EQ(back->width, 7);
    EXPECT_EQ(back->pixels, picture.pixels);
  }
}

TEST(ImageEncode, PicturesWhoseNumbersDoNotFitAreRefused) {
  Picture short_one = gradient(4, 4, 1);
  short_one.pixels.pop_back();
  for (const Picture& p :
       {Picture{0, 4, 1, {}}, Picture{4, 4, 2, std::vector<std::uint8_t>(32)}, short_one}) {
    const Result<Bytes> bytes = encode_png(p);
    ASSERT_FALSE(bytes.ok());
    EXPECT_EQ(bytes.status().code(), Code::kInvalid);
  }
}

}  // namespace
}  // namespace trireme::data
