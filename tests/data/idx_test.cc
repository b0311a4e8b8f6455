#include "trireme/data/read/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/fixture.h"
#include "trireme/data/read/inflate.h"

namespace trireme::data {
namespace {

using ::testing::HasSubstr;

TEST(Idx, ReadsPicturesAndLabels) {
  const auto images = parse_idx(fixture("images.idx"), "images.idx");
  ASSERT_TRUE(images.ok()) << images.status().to_string();
  EXPECT_EQ(images->type.to_string(), "u8[5, 4, 3]");
  ASSERT_EQ(images->bytes.size(), 60U);
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(static_cast<std::size_t>(images->bytes[i]), i * 7 % 251);
  const auto labels = parse_idx(fixture("labels.idx"), "labels.idx");
  ASSERT_TRUE(labels.ok());
  EXPECT_EQ(*to_labels(*labels, "labels.idx", 10), (std::vector<std::int32_t>{3, 0, 2, 1, 3}));
}

TEST(Idx, ReadsEveryType) {
  for (const std::string type : {"i1", "i2", "i4", "f4", "f8"}) {
    const auto array = parse_idx(fixture("values_" + type + ".idx"), type);
    ASSERT_TRUE(array.ok()) << array.status().to_string();
    EXPECT_EQ(array->type.shape, (Shape{2, 3}));
    const float unit = type[0] == 'f' ? 0.5F : 1.0F;
    const auto values = to_floats(*array, type);
    ASSERT_TRUE(values.ok());
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_EQ((*values)[i], (static_cast<float>(i) - 3) * unit) << type << " " << i;
  }
}

TEST(Idx, CutAnywhereItIsAnErrorThatNamesFileAndOffset) {
  const Bytes whole = fixture("images.idx");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto array = parse_idx(cut_at(whole, size), "cut.idx");
    ASSERT_FALSE(array.ok()) << size;
    EXPECT_EQ(array.status().code(), Code::kCorrupt);
    EXPECT_THAT(array.status().message(), HasSubstr(fmt::format("cut.idx, offset {}:", size)));
  }
}

TEST(Idx, DamagedHeadersAndLongFilesAreErrors) {
  const Bytes whole = fixture("images.idx");
  const auto why = [&](const Bytes& bytes) { return parse_idx(bytes, "x").status().message(); };
  EXPECT_THAT(why(flipped_at(whole, 0)), HasSubstr("offset 0: got no two zero bytes"));
  EXPECT_THAT(why(flipped_at(whole, 2)), HasSubstr("offset 2: unknown value type 0xf7"));
  EXPECT_THAT(why(flipped_at(whole, 3, 3)), HasSubstr("offset 3: got 0 dimensions"));
  EXPECT_THAT(why(flipped_at(whole, 3, 0x13)), HasSubstr("got 16 dimensions"));
  EXPECT_THAT(why(flipped_at(whole, 4, 0x80)), HasSubstr("ends early"));
  EXPECT_THAT(why(flipped_at(whole, 7, 1)), HasSubstr("offset 64: 12 bytes after the last value"));
  Bytes huge = whole;
  for (std::size_t i = 4; i < 16; ++i) huge[i] = std::byte{0xFF};
  EXPECT_THAT(why(huge), HasSubstr("too many elements"));
  Bytes longer = whole;
  longer.push_back({});
  EXPECT_THAT(why(longer), HasSubstr("offset 76: 1 bytes after"));
}

TEST(Inflate, UnpacksGzipOfOneOrSeveralMembers) {
  const auto images = gunzip(fixture("images.idx.gz"), "images.idx.gz");
  ASSERT_TRUE(images.ok()) << images.status().to_string();
  EXPECT_EQ(*images, fixture("images.idx"));
  EXPECT_EQ(as_text(*gunzip(fixture("two_members.gz"), "two")), "first,second");
  EXPECT_EQ(*gunzip_if_needed(fixture("labels.idx"), "plain"), fixture("labels.idx"));
  EXPECT_EQ(*gunzip_if_needed(fixture("images.idx.gz"), "packed"), fixture("images.idx"));
}

TEST(Inflate, CutAnywhereOrWithAnyByteOfItsDataChangedItIsAnError) {
  const Bytes whole = fixture("images.idx.gz"), content = fixture("images.idx");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto out = gunzip(cut_at(whole, size), "cut.gz");
    ASSERT_FALSE(out.ok()) << size;
    EXPECT_THAT(out.status().message(), HasSubstr("cut.gz, offset "));
  }
  for (std::size_t at = 0; at < whole.size();
       ++at) {  // time stamp, system and name of the header do not matter
    const auto out = gunzip(flipped_at(whole, at), "x");
    if (!out.ok()) continue;
    EXPECT_TRUE(*out == content && at >= 4 && at < 20) << at;
  }
  Bytes longer = whole;
  longer.push_back(std::byte{7});
  EXPECT_THAT(gunzip(longer, "x").status().message(), HasSubstr("bytes after the end"));
}

TEST(Inflate, StopsAtItsLimit) {
  EXPECT_TRUE(gunzip(fixture("images.idx.gz"), "x", 76).ok());
  const auto out = gunzip(fixture("images.idx.gz"), "x", 75);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().code(), Code::kExhausted);
  EXPECT_THAT(inflate_raw({}, std::size_t{1} << 40, "x", 5).status().message(), HasSubstr("offset 5"));
}

TEST(Arrays, SamplesAndLabelsThatDoNotFitAreNamed) {
  const FileArray images = *parse_idx(fixture("images.idx"), "i"),
                  labels = *parse_idx(fixture("labels.idx"), "l");
  Dataset set;
  ASSERT_TRUE(append_arrays(set, {&images, &labels, "i", "l"}).ok());
  EXPECT_EQ(set.sample_shape, (Shape{1, 4, 3}));
  EXPECT_EQ(set.labels.size(), 5U);
  EXPECT_THAT(append_arrays(set, {&images, &images, "i", "l"}).message(),
              HasSubstr("labels of shape [5, 4, 3]"));
  EXPECT_THAT(append_arrays(set, {&images, nullptr, "i", "l"}).message(),
              HasSubstr("some files have labels"));
  const FileArray floats = *parse_idx(fixture("values_f4.idx"), "f");
  EXPECT_THAT(append_arrays(set, {&floats, &labels, "f", "l"}).message(), HasSubstr("got samples f32[3]"));
  Dataset other;
  EXPECT_THAT(append_arrays(other, {&floats, &labels, "f", "l"}).message(),
              HasSubstr("l: 5 labels, but f has 2"));
  EXPECT_THAT(to_labels(labels, "l", 3).status().message(),
              HasSubstr("label 0 is 3, expected an integer from 0 to 2"));
}

}  // namespace
}  // namespace trireme::data
