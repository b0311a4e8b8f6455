#include "trireme/data/read/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/fixture.h"
#include "trireme/data/read/npy_header.h"

namespace trireme::data {
namespace {

using ::testing::HasSubstr;

float expected(const std::string& type, std::size_t i) {
  const float value = static_cast<float>(i) - 4;
  if (type == "b1") return value != 0 ? 1.0F : 0.0F;
  return type.find('u') != std::string::npos ? std::abs(value) : value;
}

TEST(Npy, ReadsEveryTypeAndByteOrder) {
  const std::pair<const char*, DType> types[] = {
      {"b1", DType::kU8},     {"u1", DType::kU8},     {"i1", DType::kI32},    {"le_i2", DType::kI32},
      {"le_u2", DType::kI32}, {"le_i4", DType::kI32}, {"le_u4", DType::kI64}, {"le_i8", DType::kI64},
      {"le_u8", DType::kF64}, {"le_f2", DType::kF32}, {"le_f4", DType::kF32}, {"le_f8", DType::kF64},
      {"be_i2", DType::kI32}, {"be_i4", DType::kI32}, {"be_f4", DType::kF32}, {"be_f8", DType::kF64}};
  for (const auto& [name, dtype] : types) {
    const auto array = parse_npy(fixture(std::string(name) + ".npy"), name);
    ASSERT_TRUE(array.ok()) << array.status().to_string();
    EXPECT_EQ(array->type.shape, (Shape{2, 3, 4}));
    EXPECT_EQ(array->type.dtype, dtype) << name;
    const auto values = *to_floats(*array, name);
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(values[i], expected(name, i)) << name << " " << i;
  }
}

TEST(Npy, ReadsFortranOrderAndEveryVersion) {
  for (const char* name : {"fortran.npy", "version2.npy", "version3.npy"}) {
    const auto array = parse_npy(fixture(name), name);
    ASSERT_TRUE(array.ok()) << array.status().to_string();
    const auto values = *to_floats(*array, name);
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(values[i], static_cast<float>(i) - 4) << name;
  }
}

TEST(Npy, ScalarsAndEmptyArraysAreArraysToo) {
  const auto scalar = parse_npy(fixture("scalar.npy"), "s");
  ASSERT_TRUE(scalar.ok());
  EXPECT_EQ(scalar->type.to_string(), "f32[]");
  EXPECT_EQ(*to_floats(*scalar, "s"), (std::vector<float>{2.5}));
  const auto empty = parse_npy(fixture("empty.npy"), "e");
  ASSERT_TRUE(empty.ok());
  Dataset set;
  EXPECT_THAT(append_arrays(set, {&*empty, nullptr, "e.npy", {}}).message(), HasSubstr("e.npy: no samples"));
  EXPECT_THAT(append_arrays(set, {&*scalar, nullptr, "s.npy", {}}).message(), HasSubstr("s.npy: no samples"));
}

TEST(Npy, TypesItDoesNotReadAreNamed) {
  EXPECT_THAT(parse_npy(fixture("complex.npy"), "c").status().message(), HasSubstr("'<c8' are not read"));
  EXPECT_THAT(parse_npy(fixture("text.npy"), "t").status().message(), HasSubstr("'<U2' are not read"));
  EXPECT_THAT(parse_npy(fixture("record.npy"), "r").status().message(), HasSubstr("records are not read"));
}

TEST(Npy, CutAnywhereItIsAnErrorThatNamesFileAndOffset) {
  for (const char* name : {"le_i2.npy", "version2.npy", "be_f8.npy"}) {
    const Bytes whole = fixture(name);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto array = parse_npy(cut_at(whole, size), "cut.npy");
      ASSERT_FALSE(array.ok()) << name << " " << size;
      EXPECT_THAT(array.status().message(), HasSubstr(fmt::format("cut.npy, offset {}:", size)));
    }
    Bytes longer = whole;
    longer.push_back({});
    EXPECT_THAT(parse_npy(longer, "x").status().message(), HasSubstr("1 bytes after the last value"));
  }
}

TEST(Npy, AChangedHeaderByteNeverReadsMoreThanThereIs) {
  const Bytes whole = fixture("le_f4.npy");
  int accepted = 0;
  for (std::size_t at = 0; at < 128; ++at)
    for (const unsigned mask : {0x01U, 0x10U, 0xFFU}) {
      const auto array = parse_npy(flipped_at(whole, at, mask), "x");
      if (!array.ok()) continue;
      ++accepted;
      EXPECT_EQ(array->bytes.size(), array->type.num_bytes());
    }
  EXPECT_LT(accepted, 20) << "the minor version, letters of the type, a swapped shape";
}

TEST(Npy, HeadersSayWhereTheyAreWrong) {
  const auto why = [](std::string_view text) { return parse_npy_header(text, "x", 10).status().message(); };
  EXPECT_TRUE(parse_npy_header("{'shape': (), 'descr': \"<f4\", 'fortran_order': True}", "x", 10).ok());
  EXPECT_THAT(why(""), HasSubstr("offset 10: bad NPY header: expected '{'"));
  EXPECT_THAT(why("{'descr': '<f4'}"), HasSubstr("expected descr, fortran_order and shape"));
  EXPECT_THAT(why("{'descr': '<f4', 'descr': '<f4'}"), HasSubstr("'descr' occurs twice"));
  EXPECT_THAT(why("{'shape': (-1,)}"), HasSubstr("offset 21: bad NPY header: expected a size"));
  EXPECT_THAT(why("{'shape': (99999999999999999999,)}"), HasSubstr("expected a size"));
  EXPECT_THAT(why("{'shape': (1,1,1,1,1,1,1,1,1)}"), HasSubstr("more than 8 dimensions"));
  EXPECT_THAT(why("{'fortran_order': 1}"), HasSubstr("True or False"));
  EXPECT_THAT(why("{'other': 1}"), HasSubstr("unknown key 'other'"));
  EXPECT_THAT(why("{'descr"), HasSubstr("a quote without end"));
}

TEST(Npz, ReadsStoredAndDeflatedArchivesByName) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const auto arrays = parse_npz(fixture(name), name);
    ASSERT_TRUE(arrays.ok()) << arrays.status().to_string();
    ASSERT_EQ(arrays->size(), 4U);
    EXPECT_EQ((*arrays)[0].first, "x_train");
    EXPECT_EQ((*arrays)[0].second.type.to_string(), "u8[4, 2, 3]");
    EXPECT_EQ((*arrays)[3].first, "y_test");
    EXPECT_EQ(*to_labels((*arrays)[3].second, name, 3), (std::vector<std::int32_t>{1, 2}));
    for (std::size_t i = 0; i < 24; ++i)
      EXPECT_EQ(static_cast<std::size_t>((*arrays)[0].second.bytes[i]), i * 7 % 251);
  }
  EXPECT_TRUE(parse_npz(fixture("comment.npz"), "c").ok());
}

TEST(Npz, WhatIsNotReadIsNamed) {
  EXPECT_THAT(parse_npz(fixture("bzip2.npz"), "b").status().message(), HasSubstr("compression method 12"));
  EXPECT_THAT(parse_npz(fixture("no_arrays.npz"), "n").status().message(), HasSubstr("no arrays"));
  EXPECT_THAT(parse_npz(fixture("le_f4.npy"), "f").status().message(), HasSubstr("is it a zip archive?"));
  EXPECT_EQ(parse_npz(fixture("stored.npz"), "s", 300).status().code(), Code::kExhausted);
}

TEST(Npz, CutAnywhereOrWithAnyByteChangedItIsAnErrorOrTheSameArrays) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const Bytes whole = fixture(name);
    const auto expected_arrays = *parse_npz(whole, name);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto arrays = parse_npz(cut_at(whole, size), "cut.npz");
      ASSERT_FALSE(arrays.ok()) << size;
      EXPECT_THAT(arrays.status().message(), HasSubstr("cut.npz, offset "));
    }
    for (std::size_t at = 0; at < whole.size(); ++at) {
      const auto arrays = parse_npz(flipped_at(whole, at), "x");
      if (!arrays.ok()) continue;
      // Names, times and attributes are not checked; the values are, by checksum.
      for (const auto& [array_name, array] : *arrays) {
        const auto same = [&, &a = array](const auto& e) {
          return e.second.bytes == a.bytes && e.second.type == a.type;
        };
        EXPECT_TRUE(std::ranges::any_of(expected_arrays, same)) << at;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::data
