#include "trireme/tensor/shape.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

TEST(Shape, DefaultIsAScalar) {
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().num_elems(), 1);
  EXPECT_EQ(Shape().to_string(), "[]");
}

TEST(Shape, CountsAndPrints) {
  const Shape s{32, 1, 28, 28};
  EXPECT_EQ(s.num_elems(), 25088);
  EXPECT_EQ(s.to_string(), "[32, 1, 28, 28]");
  EXPECT_EQ(s.dim(-1), 28);
  EXPECT_EQ((TensorType{DType::kI64, s}).to_string(), "i64[32, 1, 28, 28]");
  EXPECT_EQ((TensorType{DType::kI64, s}).num_bytes(), 25088U * 8);
}

TEST(Shape, EqualityLooksAtRankAndSizes) {
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({2, 3, 0}));
  EXPECT_NE(Shape({0}), Shape());
}

TEST(Shape, CheckedRejectsWhatUsersGetWrong) {
  const std::vector<std::int64_t> negative{2, -3}, many(9, 1), huge{1LL << 31, 1LL << 31, 2};
  const std::vector<std::int64_t> huge_but_empty{0, 1LL << 40, 1LL << 40};
  EXPECT_NE(Shape::checked(negative).status().message().find("got -3 at position 1"), std::string::npos);
  EXPECT_NE(Shape::checked(many).status().message().find("expected at most 8"), std::string::npos);
  EXPECT_NE(Shape::checked(huge).status().message().find("2^59"), std::string::npos);
  EXPECT_FALSE(Shape::checked(huge_but_empty).ok());
  const std::vector<std::int64_t> limit{1LL << 31, 1LL << 28};
  EXPECT_TRUE(Shape::checked(limit).ok());
}

TEST(Shape, BroadcastsLikeNumPy) {
  EXPECT_EQ(*broadcast_shapes({4, 1, 3}, {5, 1}), Shape({4, 5, 3}));
  EXPECT_EQ(*broadcast_shapes({}, {2, 2}), Shape({2, 2}));
  EXPECT_EQ(*broadcast_shapes({1}, {0}), Shape({0}));
  EXPECT_FALSE(broadcast_shapes({2}, {0}).ok());
  const Status s = broadcast_shapes({2, 3}, {4, 3}).status();
  EXPECT_EQ(s.code(), Code::kInvalid);
  EXPECT_NE(s.message().find("[2, 3] and [4, 3]"), std::string::npos) << s.message();
}

TEST(Shape, UnknownSizesPrintAsQuestionMarks) {
  EXPECT_EQ(Shape({kUnknownDim, 3}).to_string(), "[?, 3]");
  EXPECT_EQ(Shape({4 * kUnknownDim, kUnknownDim + 2, kUnknownDim - 1}).to_string(), "[4*?, ?+2, ?-1]");
}

TEST(TensorType, ParsesWhatItPrints) {
  for (const char* text : {"f32[32, 10]", "i64[]", "bool[0]", "bf16[1, 2, 3]"})
    EXPECT_EQ(TensorType::parse(text)->to_string(), text);
  EXPECT_EQ(TensorType::parse("f32[2,3]")->to_string(), "f32[2, 3]");
  for (const char* text :
       {"", "f32", "f32[", "f32[1", "f32[1,]", "f32[,]", "f32[x]", "f33[1]", "f32[-1]", "f32[1 2]"})
    EXPECT_EQ(TensorType::parse(text).status().code(), Code::kInvalid) << text;
}

TEST(DType, NamesParseBack) {
  for (int i = 0; i < 8; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(*parse_dtype(dtype_name(dtype)), dtype);
    EXPECT_GT(dtype_size(dtype), 0U);
  }
  EXPECT_NE(parse_dtype("float").status().message().find("got 'float'"), std::string::npos);
  EXPECT_TRUE(is_floating(DType::kBF16));
  EXPECT_FALSE(is_floating(DType::kI32));
}

}  // namespace
}  // namespace trireme
