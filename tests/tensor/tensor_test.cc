#include "trireme/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "trireme/tensor/walk.h"

namespace trireme {
namespace {

Tensor iota(const Shape& shape) {
  std::vector<float> v(static_cast<std::size_t>(shape.num_elems()));
  std::iota(v.begin(), v.end(), 0.0F);
  return Tensor::from<float>(v, shape);
}

std::vector<float> contiguous(const Tensor& t) {
  const Tensor copy = *Tensor::allocate(cpu_device(), t.type());
  copy_to_contiguous(t, copy);
  const auto v = copy.values<float>();
  return {v.begin(), v.end()};
}

TEST(Tensor, IsAlignedAndRowMajor) {
  const Tensor t = iota({2, 3});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.raw()) % 64, 0U);
  EXPECT_TRUE(t.is_contiguous());
  EXPECT_EQ(t.strides()[0], 3);
  EXPECT_EQ(t.strides()[1], 1);
  EXPECT_EQ(t.values<float>()[4], 4.0F);
}

TEST(Tensor, SlicesShareMemory) {
  const Tensor t = iota({3, 4});
  const Tensor column = t.slice(1, 1, 3);
  EXPECT_EQ(column.shape(), Shape({3, 2}));
  EXPECT_FALSE(column.is_contiguous());
  EXPECT_EQ(contiguous(column), (std::vector<float>{1, 2, 5, 6, 9, 10}));
  t.values<float>()[5] = 50;
  EXPECT_EQ(contiguous(column)[2], 50.0F);
  EXPECT_TRUE(t.slice(0, 1, 3).is_contiguous());
  EXPECT_EQ(contiguous(t.slice(0, 1, 3).slice(1, 0, 1)), (std::vector<float>{4, 8}));
}

TEST(Tensor, TransposesWithoutCopying) {
  const std::array order{1, 0};
  const Tensor t = iota({2, 3}).transpose(order);
  EXPECT_EQ(t.shape(), Shape({3, 2}));
  EXPECT_EQ(contiguous(t), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Tensor, TransposesThreeDimensions) {
  const std::array order{2, 0, 1};
  const Tensor t = iota({2, 3, 4}).transpose(order);
  EXPECT_EQ(t.shape(), Shape({4, 2, 3}));
  const auto v = contiguous(t);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int k = 0; k < 3; ++k) {
        EXPECT_EQ(v[static_cast<std::size_t>(i * 6 + j * 3 + k)], static_cast<float>(j * 12 + k * 4 + i));
      }
    }
  }
}

TEST(Tensor, ReshapesOnlyContiguousTensorsOfTheSameSize) {
  const Tensor t = iota({2, 6});
  ASSERT_TRUE(t.reshape({3, 4}).ok());
  EXPECT_EQ(t.reshape({3, 4})->raw(), t.raw());
  const Status wrong_size = t.reshape({5}).status();
  EXPECT_EQ(wrong_size.code(), Code::kInvalid);
  EXPECT_NE(wrong_size.message().find("expected 12 elements"), std::string::npos) << wrong_size.message();
  EXPECT_FALSE(t.slice(1, 0, 3).reshape({6}).ok());
}

TEST(Tensor, AllowsZeroSizedTensors) {
  const Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, {0, 3}});
  EXPECT_FALSE(t.is_null());
  EXPECT_FALSE(t.is_phantom());
  EXPECT_TRUE(t.is_contiguous());
  EXPECT_EQ(t.values<float>().size(), 0U);
  EXPECT_TRUE(contiguous(t).empty());
  EXPECT_EQ(iota({3, 4}).slice(0, 3, 3).shape(), Shape({0, 4}));
}

TEST(Tensor, LivesAtAnOffsetOfABuffer) {
  const Buffer bucket = *cpu_device().allocate(64);
  const Tensor a(bucket, {DType::kF32, {4}});
  const Tensor b(bucket, {DType::kF32, {4}}, 16);
  std::memset(bucket.data(), 0, 64);
  b.values<float>()[0] = 7;
  EXPECT_EQ(a.data<float>()[4], 7.0F);
  EXPECT_EQ(b.offset_bytes(), 16U);
  EXPECT_DEATH(Tensor(bucket, {DType::kF32, {4}}, 52), "buffer of 64 bytes");
}

TEST(Tensor, PhantomsHaveTypesAndViewsButNoMemory) {
  const Tensor t = *Tensor::allocate(phantom_device(), {DType::kF32, {1024, 1024, 1024, 1024}});
  EXPECT_TRUE(t.is_phantom());
  EXPECT_EQ(t.raw(), nullptr);
  const Tensor part = t.slice(0, 1000, 1024);
  EXPECT_TRUE(part.is_phantom());
  EXPECT_EQ(part.shape(), Shape({24, 1024, 1024, 1024}));
  copy_to_contiguous(t, t);
}

TEST(Tensor, CopiesEveryElementSize) {
  const std::vector<std::uint8_t> bytes{1, 2, 3, 4};
  const std::vector<double> doubles{1, 2, 3, 4};
  const std::array order{1, 0};
  const Tensor b = Tensor::from<std::uint8_t>(bytes, {2, 2}).transpose(order);
  const Tensor d = Tensor::from<double>(doubles, {2, 2}).transpose(order);
  const Tensor b_out = *Tensor::allocate(cpu_device(), b.type());
  const Tensor d_out = *Tensor::allocate(cpu_device(), d.type());
  copy_to_contiguous(b, b_out);
  copy_to_contiguous(d, d_out);
  EXPECT_EQ(b_out.values<std::uint8_t>()[1], 3);
  EXPECT_EQ(d_out.values<double>()[1], 3.0);
}

TEST(Tensor, ReadingAsAnotherTypeIsABrokenInvariant) {
  EXPECT_DEATH(iota({1}).data<double>(), "tensor of f32");
}

TEST(Walk, MergesContiguousViewsIntoOneRow) {
  const Tensor t = iota({2, 3, 4});
  int rows = 0;
  walk_rows<2>(t.shape(), {t.strides(), t.strides()}, [&](const auto&, const auto& stride, std::int64_t n) {
    ++rows;
    EXPECT_EQ(n, 24);
    EXPECT_EQ(stride[0], 1);
  });
  EXPECT_EQ(rows, 1);
}

TEST(Walk, RepeatsBroadcastElements) {
  const Tensor t = iota({3, 1});
  const Shape shape{2, 3, 2};
  std::vector<float> seen;
  walk_rows<1>(shape, {broadcast_strides(t, shape)},
               [&](const auto& offset, const auto& stride, std::int64_t n) {
                 for (std::int64_t i = 0; i < n; ++i)
                   seen.push_back(t.data<float>()[offset[0] + i * stride[0]]);
               });
  EXPECT_EQ(seen, (std::vector<float>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
}

TEST(Walk, VisitsScalarsOnceAndEmptyShapesNever) {
  int visits = 0;
  const auto count = [&](const auto&, const auto&, std::int64_t n) { visits += static_cast<int>(n); };
  walk_rows<1>(Shape(), {Strides{}}, count);
  EXPECT_EQ(visits, 1);
  walk_rows<1>(Shape({3, 0, 2}), {Strides{}}, count);
  EXPECT_EQ(visits, 1);
}

}  // namespace
}  // namespace trireme
