// Convolutions: small tables from the definitions, work and depth, refusals.
#include <cmath>

#include "tests/op/values.h"
#include "trireme/op/nn/conv_work.h"

namespace trireme::op::testing {
namespace {
using detail::ConvGeometry;
using detail::ConvMethod;
using detail::ConvPass;

Attrs strides(std::int64_t h, std::int64_t w) { return {{"stride_h", h}, {"stride_w", w}}; }

TEST(Conv2d, SlidesTheFilterWithoutFlippingIt) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3}), f = f64({1, 0, 0, -1}, {1, 1, 2, 2});
  EXPECT_EQ(values(kConv2d, {x, f}), (Doubles{-4, -4, -4, -4}));
  EXPECT_EQ(values(kConv2d, {x, f}, {{"pad_h", 1}, {"stride_h", 2}}), (Doubles{-2, -3, -4, -4}));
  EXPECT_EQ(values(kConv2d, {x, f}, {{"dilation_h", 2}, {"dilation_w", 2}}), Doubles{-8});
}

TEST(Conv2d, RoundsSixteenBitSumsOnce) {
  // 256 + 1 + 1: bf16 has 8 bits, so adding one by one stays at 256.
  const Tensor x = as(DType::kBF16, f64({256, 1, 1}, {1, 3, 1, 1}));
  const Tensor f = as(DType::kBF16, f64({1, 1, 1}, {1, 3, 1, 1}));
  EXPECT_EQ(static_cast<float>(values<BFloat16>(kConv2d, {x, f})[0]), 258.0F);
}

TEST(Conv2d, RefusesWhatDoesNotFit) {
  const TensorType x = f32_type({2, 4, 5, 5}), f = f32_type({6, 4, 3, 3});
  expect_refused(kConv2d, {f32_type({4, 5, 5}), f}, {}, "[op conv2d] x: got f32[4, 5, 5], expected 4 dim");
  expect_refused(kConv2d, {x, f32_type({6, 3, 3, 3})}, {}, "[op conv2d] channels: got 4 in x");
  expect_refused(kConv2d, {x, f32_type({5, 2, 3, 3})}, {{"groups", 2}},
                 "[op conv2d] filter: got 5 output channels, expected a multiple of 2 groups");
  expect_refused(
      kConv2d, {x, f32_type({6, 4, 6, 3})}, {},
      "[op conv2d] filter height: got 6 taps with dilation 1, expected to fit into 5 with padding 0");
  expect_refused(kConv2d, {x, f}, {{"stride_w", 0}}, "[op conv2d] attribute 'stride_w': got 0");
  expect_refused(kConv2d, {x, f}, {{"pad_h", std::int64_t{1} << 40}},
                 "[op conv2d] attribute 'pad_h': got 1099");
  expect_refused(kConv2d, {x, f}, {{"dilation_h", 2147483647}}, "[op conv2d] filter height: got 3 taps");
  expect_refused(kConv2d, {f32_type({1 << 20, 1, 1, 1}), f32_type({1 << 20, 1, 1, 1})},
                 {{"pad_h", 1 << 30}, {"pad_w", 1 << 30}}, "[op conv2d] y: ");
}

TEST(Conv2d, RefusesMethodsWithoutAKernelAndSaysSo) {
  const TensorType x = f32_type({2, 4, 5, 5}), f = f32_type({6, 4, 3, 3});
  expect_refused(kConv2d, {x, f}, {{"method", "fft"}},
                 "[op conv2d] attribute 'method': got 'fft', which has no kernel yet, expected auto, ");
  expect_refused(kConv2d, {x, f}, {{"method", "fast"}},
                 "[op conv2d] attribute 'method': got 'fast', expected auto, direct, im2col or winograd");
}

TEST(Conv2d, RefusesWinogradForFiltersThatItDoesNotTake) {
  const TensorType x = f32_type({2, 4, 5, 5}), f = f32_type({6, 4, 3, 3});
  EXPECT_TRUE(
      infer_types(kConv2d, std::array{x, f}, *complete_attrs(kConv2d, {{"method", "winograd"}})).ok());
  const std::string why = "[op conv2d] attribute 'method': got 'winograd' for filter f32";
  expect_refused(kConv2d, {x, f32_type({6, 4, 4, 4})}, {{"method", "winograd"}}, why);
  expect_refused(kConv2d, {x, f32_type({6, 4, 5, 3})}, {{"method", "winograd"}}, why);
  expect_refused(kConv2d, {x, f}, {{"method", "winograd"}, {"stride_w", 2}}, why);
  expect_refused(kConv2d, {x, f}, {{"method", "winograd"}, {"pad_h", 3}}, why);
}

TEST(Conv2dTranspose, ScattersEveryElementTimesTheFilter) {
  const Tensor x = f64({1, 2}, {1, 1, 1, 2}), f = f64({1, 10, 100}, {1, 1, 1, 3});
  EXPECT_EQ(values(kConv2dTranspose, {x, f}), (Doubles{1, 12, 120, 200}));
  EXPECT_EQ(values(kConv2dTranspose, {x, f}, strides(1, 2)), (Doubles{1, 10, 102, 20, 200}));
  Attrs padded = strides(1, 2);
  padded.set("pad_w", std::int64_t{1});
  EXPECT_EQ(values(kConv2dTranspose, {x, f}, padded), (Doubles{10, 102, 20}));
  padded.set("output_pad_w", std::int64_t{1});
  EXPECT_EQ(values(kConv2dTranspose, {x, f}, padded), (Doubles{10, 102, 20, 200}));
}

TEST(Conv2dTranspose, KeepsGroupsApart) {
  const Tensor x = f64({1, 2}, {1, 2, 1, 1}), f = f64({3, 5, 7, 11}, {2, 2, 1, 1});
  EXPECT_EQ(values(kConv2dTranspose, {x, f}, {{"groups", 2}}), (Doubles{3, 5, 14, 22}));
  EXPECT_EQ(values(kConv2dTranspose, {x, f}), (Doubles{17, 27}));
}

TEST(Conv2dTranspose, RefusesWhatConvolutionCouldNotTakeBack) {
  const TensorType x = f32_type({2, 4, 5, 5}), f = f32_type({4, 3, 3, 3});
  expect_refused(kConv2dTranspose, {x, f32_type({3, 4, 3, 3})}, {},
                 "[op conv2d_transpose] filter: got f32[3, 4");
  expect_refused(
      kConv2dTranspose, {x, f}, {{"output_pad_h", 1}},
      "[op conv2d_transpose] attribute 'output_pad_h': got 1, expected at least 0 and less than the");
  expect_refused(kConv2dTranspose, {x, f}, {{"pad_w", std::int64_t{1} << 62}},
                 "[op conv2d_transpose] attribute 'pad_w': got 4611686018427387904, expected at most");
  expect_refused(kConv2dTranspose, {x, f}, {{"pad_w", 4}}, "[op conv2d_transpose] x: got 5 along w");
  expect_refused(kConv2dTranspose, {x, f}, {{"groups", 3}},
                 "[op conv2d_transpose] filter: got 4 output channels");
}

TEST(LocallyConnected2d, HasAFilterPerPosition) {
  const Tensor x = f64({1, 2, 3}, {1, 1, 1, 3}), f = f64({1, 10, 100, 1000}, {1, 2, 1, 1, 1, 2});
  EXPECT_EQ(values(kLocallyConnected2d, {x, f}), (Doubles{21, 3200}));
}

TEST(LocallyConnected2d, WithEqualFiltersIsAConvolution) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 2, 2}), f = f64({1, -2, 3, 4}, {2, 2, 1, 1});
  const Tensor untied = (*run_op(kBroadcastTo, {f}, {{"shape", Ints{2, 2, 2, 2, 1, 1}}}))[0];
  EXPECT_EQ(values(kLocallyConnected2d, {x, untied}), values(kConv2d, {x, f}));
  expect_refused(
      kLocallyConnected2d, {x.type(), {DType::kF64, {2, 1, 2, 2, 1, 1}}}, {},
      "[op locally_connected2d] filter: got 2 x 1 positions, expected one for each of 2 x 2 outputs");
}

ConvGeometry same_size() {  // 3 -> 5 channels, 3x3 on 8x6, keeps the size
  return *detail::conv_geometry(f32_type({2, 3, 8, 6}), f32_type({5, 3, 3, 3}),
                                *complete_attrs(kConv2d, {{"pad_h", 1}, {"pad_w", 1}}));
}

TEST(ConvWork, DirectAndIm2colFollowTheirClosedForm) {
  for (const ConvMethod method : {ConvMethod::direct, ConvMethod::im2col}) {
    const cost::OpCost c = conv_work(method, same_size());
    EXPECT_EQ(c.work, 2.0 * 5 * 8 * 6 * 3 * 3 * 3);
    EXPECT_EQ(c.depth, 2 + 2 + 2);
    EXPECT_EQ(conv_work(method, same_size(), ConvPass::input_grad).depth, 3 + 2 + 2);
    EXPECT_EQ(conv_work(method, same_size(), ConvPass::filter_grad).depth, 1 + 3 + 3);
  }
}

TEST(ConvWork, FftFollowsItsClosedForm) {
  const cost::OpCost c = conv_work(ConvMethod::fft, same_size());
  EXPECT_NEAR(c.work, 5 * 48 * std::log2(48.0) * (5 * 3 + 2 * 3 + 2 * 5) + 48.0 * 2 * 3 * 5, 1e-9);
  EXPECT_EQ(c.depth, 2 * 6 + 2);
}

TEST(ConvWork, WinogradHasTilesOfMPlusRMinusOne) {
  const double alpha = 4 + 3 - 1, tiles = 2 * 2 * 2;  // 2 samples, 8 and 6 in tiles of 4
  const cost::OpCost c = conv_work(ConvMethod::winograd, same_size());
  EXPECT_EQ(c.work, alpha * alpha * 3 * 5 * tiles + alpha * (9 + 3 * alpha) * 15 +
                        2 * alpha * alpha * alpha * 3 * tiles + alpha * (4 * alpha + 16) * 5 * tiles);
  EXPECT_EQ(c.depth, 2 * 2 + 4 * 3 + 2);
}

TEST(ConvWork, FlopsCountTheTapsInsideTheImage) {
  // Along 8: 3 taps at each of 8 positions, less one at either end; along 6 likewise.
  EXPECT_EQ(same_size().flops(), 2.0 * 2 * 5 * 3 * (8 * 3 - 2) * (6 * 3 - 2));
}

}  // namespace
}  // namespace trireme::op::testing
