#include "trireme/data/read/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/fixture.h"

namespace trireme::data {
namespace {

using ::testing::HasSubstr;

Picture decoded(const std::string& name, int channels) {
  auto picture = decode_image(fixture(name), name, channels);
  EXPECT_TRUE(picture.ok()) << picture.status().to_string();
  return picture.ok() ? std::move(picture).value() : Picture{};
}

// The picture that make_fixtures.py draws.
int drawn(int y, int x, int c) {
  return std::clamp(c == 0 ? x * 7 : c == 1 ? y * 10 : 255 - (x + y) * 4, 0, 255);
}

int largest_difference(const Picture& a, const Picture& b) {
  EXPECT_EQ(a.pixels.size(), b.pixels.size());
  int worst = 0;
  for (std::size_t i = 0; i < std::min(a.pixels.size(), b.pixels.size()); ++i)
    worst = std::max(worst, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  return worst;
}

TEST(Image, ReadsPngExactly) {
  const Picture p = decoded("colour.png", 3);
  ASSERT_EQ(p.height, 24);
  ASSERT_EQ(p.width, 36);
  for (int y = 0; y < 24; ++y)
    for (int x = 0; x < 36; ++x)
      for (int c = 0; c < 3; ++c)
        ASSERT_EQ(p.pixels[static_cast<std::size_t>((y * 36 + x) * 3 + c)], drawn(y, x, c)) << y << " " << x;
  EXPECT_EQ(decoded("alpha.png", 3).pixels, p.pixels);
  EXPECT_EQ(decoded("palette.png", 3).pixels, decoded("palette_rgb.png", 3).pixels);
}

TEST(Image, ReadsGreyOfEightAndSixteenBits) {
  const Picture grey = decoded("grey.png", 1);
  ASSERT_EQ(grey.pixels.size(), 24U * 36);
  const int luma = (299 * drawn(5, 7, 0) + 587 * drawn(5, 7, 1) + 114 * drawn(5, 7, 2)) / 1000;
  EXPECT_NEAR(grey.pixels[5 * 36 + 7], luma, 1);
  const Picture wide = decoded("grey.png", 3);
  EXPECT_EQ(wide.pixels[3 * 7], grey.pixels[7]);
  EXPECT_EQ(wide.pixels[3 * 7 + 2], grey.pixels[7]);
  const Picture sixteen = decoded("sixteen.png", 1);
  EXPECT_EQ(sixteen.pixels.size(), 24U * 36);
  EXPECT_EQ(sixteen.pixels[0], 0);
  EXPECT_LT(sixteen.pixels[100], sixteen.pixels[800]);
}

TEST(Image, ReadsJpegLikePillowDoes) {
  EXPECT_LE(largest_difference(decoded("colour.jpg", 3), decoded("colour_jpg.png", 3)), 1);
  EXPECT_LE(largest_difference(decoded("progressive.jpg", 3), decoded("colour.png", 3)), 40);
  EXPECT_LE(largest_difference(decoded("grey.jpg", 1), decoded("grey.png", 1)), 8);
}

TEST(Image, WhatItCannotReadIsNamed) {
  EXPECT_THAT(decode_image(fixture("bitmap.bmp"), "b.bmp", 3).status().message(),
              HasSubstr("b.bmp, offset 0: neither"));
  EXPECT_THAT(decode_image({}, "e.png", 3).status().message(),
              HasSubstr("e.png, offset 0: the file is empty"));
  EXPECT_THAT(decode_image(fixture("cmyk.jpg"), "c.jpg", 3).status().message(), HasSubstr("CMYK"));
  EXPECT_THAT(decode_image(fixture("colour.png"), "c", 2).status().message(), HasSubstr("2 channels"));
  for (const char* name : {"colour.png", "colour.jpg"}) {
    const auto large = decode_image(fixture(name), name, 3, 24 * 36 - 1);
    EXPECT_EQ(large.status().code(), Code::kExhausted) << name;
    EXPECT_TRUE(decode_image(fixture(name), name, 3, 24 * 36).ok()) << name;
  }
}

TEST(Image, CutAnywhereItIsAnErrorThatNamesTheFile) {
  for (const char* name : {"colour.png", "grey.png", "palette.png"}) {
    const Bytes whole = fixture(name);
    for (std::size_t size = 0; size + 12 < whole.size(); ++size) {  // the last 12 bytes only say that it ends
      const auto picture = decode_image(cut_at(whole, size), "cut.png", 3);
      ASSERT_FALSE(picture.ok()) << name << " " << size;
      EXPECT_THAT(picture.status().message(), HasSubstr("cut.png, offset 0"));
    }
  }
  for (const char* name : {"colour.jpg", "progressive.jpg", "grey.jpg"}) {
    const Bytes whole = fixture(name);
    for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
      const auto picture = decode_image(cut_at(whole, size), "cut.jpg", 3);
      if (picture.ok()) {
        EXPECT_GT(size + 8, whole.size()) << name << ": only filling bits are missing";
      } else {
        EXPECT_THAT(picture.status().message(), HasSubstr("cut.jpg, offset 0"));
      }
    }
  }
}

TEST(Image, ChangedBytesGiveAPictureOfTheRightSizeOrAnError) {
  for (const char* name : {"colour.png", "colour.jpg"}) {
    const Bytes whole = fixture(name);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      const auto picture = decode_image(flipped_at(whole, at), name, 3, 1 << 20);
      if (!picture.ok()) continue;
      EXPECT_EQ(picture->pixels.size(), static_cast<std::size_t>(picture->height * picture->width * 3));
    }
  }
}

TEST(Image, FitsLikePillowsTriangleFilter) {
  const Picture whole = decoded("colour.png", 3);
  for (const auto& [h, w] : {std::pair{8, 10}, {40, 44}, {24, 24}}) {
    const std::string name = fmt::format("fit_{}x{}.png", h, w);
    const Picture expected = decoded(name, 3);
    ASSERT_EQ(expected.height, h);
    std::vector<std::uint8_t> planes(static_cast<std::size_t>(3 * h * w));
    fit_picture(whole, h, w, planes);
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x)
        for (int c = 0; c < 3; ++c)
          ASSERT_NEAR(planes[static_cast<std::size_t>((c * h + y) * w + x)],
                      expected.pixels[static_cast<std::size_t>((y * w + x) * 3 + c)], 1)
              << name << " " << y << " " << x;
  }
}

TEST(Image, AFitOfTheSameSizeIsThePictureAndAFlatOneStaysFlat) {
  const Picture whole = decoded("grey.png", 1);
  std::vector<std::uint8_t> same(24 * 36);
  fit_picture(whole, 24, 36, same);
  EXPECT_EQ(same, whole.pixels);
  const Picture flat{5, 3, 1, std::vector<std::uint8_t>(15, 200)};
  for (const int side : {1, 2, 3, 7, 50}) {
    std::vector<std::uint8_t> out(static_cast<std::size_t>(side * side));
    fit_picture(flat, side, side, out);
    EXPECT_EQ(out, std::vector<std::uint8_t>(out.size(), 200)) << side;
  }
}

TEST(Image, NamesOfPicturesAreToldByTheirEnd) {
  for (const char* name : {"a.png", "b.JPG", "c.x.jpeg", "D.Png"}) EXPECT_TRUE(is_image_name(name)) << name;
  for (const char* name : {"a.gif", "png", "readme.txt", "a.png.txt"})
    EXPECT_FALSE(is_image_name(name)) << name;
}

}  // namespace
}  // namespace trireme::data
