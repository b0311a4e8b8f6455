#include "trireme/kernel/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/kernel/runner.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/tensor/half.h"

namespace trireme::kernel {
namespace {

using test::Problem;
using ::testing::HasSubstr;

const Problem& add_problem() {
  static const Problem problem({"add", {{3, 4}, {3, 4}}, {}});
  return problem;
}

TEST(KernelChoice, TheFirstApplicableRowWinsUnlessOneIsNamed) {
  const auto first = choose_cpu_kernel(add_problem().query(1));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->name(), "vector");
  const auto reference = choose_cpu_kernel(add_problem().query(1), "reference");
  ASSERT_TRUE(reference.ok());
  EXPECT_EQ(reference->row, nullptr);
  EXPECT_EQ(reference->name(), "reference");
}

TEST(KernelChoice, WhatNoRowCanDoFallsToTheReference) {
  const Problem wide({"add", {{3, 4}, {3, 4}}, {}, DType::kF64});
  EXPECT_EQ(choose_cpu_kernel(wide.query(1))->name(), "reference");
  const Problem partial(
      {"sum", {{3, 4, 5, 6}}, {{"axes", std::vector<std::int64_t>{0, 2}}, {"keep_dims", false}}});
  EXPECT_EQ(choose_cpu_kernel(partial.query(1))->name(), "reference");
}

TEST(KernelChoice, ANameThatDoesNotApplyHereIsAnErrorThatSaysWhichDo) {
  const auto choice = choose_cpu_kernel(add_problem().query(1), "cudnn");
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.status().code(), Code::kNotFound);
  EXPECT_THAT(choice.status().message(),
              HasSubstr("op add: got \"cudnn\", expected one of vector, reference"));
  const Problem wide({"add", {{3, 4}, {3, 4}}, {}, DType::kF64});
  EXPECT_FALSE(choose_cpu_kernel(wide.query(1), "vector").ok());
}

TEST(KernelLibrary, NamesTheMatrixLibraryAndTheInstructionSet) {
  EXPECT_THAT(cpu_kernel_library(), HasSubstr("isa="));
  EXPECT_THAT(cpu_kernel_library(), ::testing::AnyOf(HasSubstr("blas=OpenBLAS "), HasSubstr("onednn=")));
}

Tensor run_unary(const char* op, const Tensor& x, const op::Attrs& attrs, const Shape& out_shape) {
  const Problem problem({op, {x.shape()}, attrs});
  Tensor y = *Tensor::allocate(cpu_device(), {DType::kF32, out_shape});
  const auto choice = choose_cpu_kernel(problem.query(1));
  op::KernelArgs args{.inputs = {&x, 1},
                      .outputs = {&y, 1},
                      .attrs = problem.attrs,
                      .workspace = {},
                      .parallel = op::serial()};
  choice->row->run(args);
  return y;
}

TEST(VectorKernels, NotANumberSurvivesReluAndWinsEveryPoolingWindow) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from<float>(std::vector<float>{nan, -1, 2}, {3});
  const Tensor y = run_unary("relu", x, {}, {3});
  EXPECT_TRUE(std::isnan(y.data<float>()[0]));
  EXPECT_EQ(y.data<float>()[1], 0);

  const std::int64_t two = 2, zero = 0;
  const op::Attrs pool{{"window_h", two}, {"window_w", two}, {"stride_h", two},
                       {"stride_w", two}, {"pad_h", zero},   {"pad_w", zero}};
  for (int place = 0; place < 4; ++place) {
    std::vector<float> plane(2 * 16, 1.0F);
    for (std::size_t window = 0; window < 8; ++window)
      plane[static_cast<std::size_t>(place / 2) * 16 + 2 * window + static_cast<std::size_t>(place % 2)] =
          nan;
    const Tensor pooled =
        run_unary("max_pool2d", Tensor::from<float>(plane, {1, 1, 2, 16}), pool, {1, 1, 1, 8});
    for (const float v : pooled.values<float>()) EXPECT_TRUE(std::isnan(v)) << "NaN at place " << place;
  }
}

// Every pattern of 16 bits, and floats next to every one of them.
TEST(Cast, VectorLoopsGiveTheBitsOfTheDefinitions) {
  const VectorLoops& loops = vector_loops();
  std::vector<std::uint16_t> patterns(65536), back(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(65536);
  const auto expect_rounding = [&](auto to_half, auto bits_of) {
    for (const std::uint32_t nudge : {0U, 1U, 0xFFFFFFFFU, 0x800U, 0x1000U, 0x1001U, 0x8000U, 0x8001U}) {
      std::vector<float> moved(65536);
      for (std::size_t i = 0; i < moved.size(); ++i)
        moved[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(wide[i]) + nudge);
      to_half(moved.data(), back.data(), 65536);
      for (std::size_t i = 0; i < moved.size(); ++i) ASSERT_EQ(back[i], bits_of(moved[i])) << moved[i];
    }
  };
  loops.f16_to_f32(patterns.data(), wide.data(), 65536);
  for (std::size_t i = 0; i < wide.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(f16_value(patterns[i])))
        << i;
  expect_rounding(loops.f32_to_f16, f16_bits);
  loops.bf16_to_f32(patterns.data(), wide.data(), 65536);
  for (std::size_t i = 0; i < wide.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(bf16_value(patterns[i])))
        << i;
  expect_rounding(loops.f32_to_bf16, bf16_bits);
}

}  // namespace
}  // namespace trireme::kernel
