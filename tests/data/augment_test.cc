#include "trireme/data/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "trireme/data/dataset.h"

namespace trireme::data {
namespace {

using ::testing::HasSubstr;

const Shape kPicture{1, 4, 5};

TEST(Augment, AViewIsAFunctionOfSeedEpochAndSample) {
  const Augment all{.shift = 2, .crop = 0.5, .flip = true};
  const auto key = [&](std::uint64_t seed, std::int64_t epoch, std::int64_t sample) {
    const AugmentedView v = draw_view(all, kPicture, seed, epoch, sample);
    return std::tuple(v.y0, v.x0, v.dy, v.dx);
  };
  EXPECT_EQ(key(1, 2, 3), key(1, 2, 3));
  EXPECT_NE(key(1, 2, 3), key(2, 2, 3));
  EXPECT_NE(key(1, 2, 3), key(1, 3, 3));
  EXPECT_NE(key(1, 2, 3), key(1, 2, 4));
}

TEST(Augment, ShiftsReachEveryPlaceAndNoOther) {
  const Augment shift{.shift = 2};
  std::set<std::pair<double, double>> seen;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const AugmentedView v = draw_view(shift, kPicture, 1, 0, i);
    EXPECT_FALSE(v.resampled);
    EXPECT_LE(std::abs(v.y0), 2);
    EXPECT_LE(std::abs(v.x0), 2);
    seen.emplace(v.y0, v.x0);
  }
  EXPECT_EQ(seen.size(), 25U);
}

TEST(Augment, AShiftedPictureIsTheOldOneBesideZeros) {
  const std::vector<std::uint8_t> in = {1, 2, 3, 4, 5, 6};
  std::vector<float> out(6, 9);
  view_channel({.y0 = 1, .x0 = -1, .dy = 1, .dx = 1, .resampled = false}, in, 2, 3, out);
  EXPECT_EQ(out, (std::vector<float>{0, 4, 5, 0, 0, 0}));
}

TEST(Augment, FlippingMirrorsHalfOfTheSamples) {
  const Augment flip{.flip = true};
  const std::vector<float> in = {1, 2, 3, 4, 5, 6};
  int mirrored = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    std::vector<float> out(6);
    view_channel(draw_view(flip, {1, 2, 3}, 5, 0, i), in, 2, 3, out);
    if (out == std::vector<float>{3, 2, 1, 6, 5, 4})
      ++mirrored;
    else
      EXPECT_EQ(out, in);
  }
  EXPECT_GT(mirrored, 440);
  EXPECT_LT(mirrored, 560);
}

TEST(Augment, EveryShiftOfEitherHandShowsWhatTheFormulaSays) {
  std::vector<float> in(12), out(12);
  for (std::size_t i = 0; i < 12; ++i) in[i] = static_cast<float>(i + 1);
  for (const bool resampled : {false, true})
    for (const int dx : {1, -1})
      for (int y0 = -4; y0 <= 4; ++y0)
        for (int x0 = -5; x0 <= 9; ++x0) {
          const AugmentedView view{static_cast<double>(y0), static_cast<double>(x0), 1,
                                   static_cast<double>(dx), resampled};
          view_channel(view, in, 3, 4, out);
          for (int y = 0; y < 3; ++y)
            for (int x = 0; x < 4; ++x) {
              const int from_y = y0 + y, from_x = x0 + x * dx;
              const bool inside = from_y >= 0 && from_y < 3 && from_x >= 0 && from_x < 4;
              ASSERT_EQ(out[static_cast<std::size_t>(y * 4 + x)],
                        inside ? in[static_cast<std::size_t>(from_y * 4 + from_x)] : 0.0F)
                  << y0 << " " << x0 << " " << dx << " " << resampled;
            }
        }
}

TEST(Augment, ACropIsAWindowOfAtLeastItsShareStretchedToTheWhole) {
  const Augment crop{.crop = 0.5};
  std::vector<float> ramp(20), out(20);
  for (std::size_t i = 0; i < 20; ++i) ramp[i] = static_cast<float>(i % 5) + 10 * static_cast<float>(i / 5);
  for (std::int64_t i = 0; i < 200; ++i) {
    const AugmentedView v = draw_view(crop, kPicture, 1, 0, i);
    ASSERT_TRUE(v.resampled);
    EXPECT_GE(v.dx, 0.5);
    EXPECT_LE(v.x0 + 4 * v.dx, 4 + 1e-9);
    EXPECT_LE(v.y0 + 3 * v.dy, 3 + 1e-9);
    view_channel(v, ramp, 4, 5, out);  // bilinear of a plane is the plane
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 5; ++x)
        EXPECT_NEAR(out[static_cast<std::size_t>(y * 5 + x)], v.x0 + x * v.dx + 10 * (v.y0 + y * v.dy), 1e-4);
  }
}

TEST(Augment, ImpossibleOnesAreRefused) {
  EXPECT_THAT(check_augment({.shift = 4}, kPicture).message(), HasSubstr("got 4, expected 0 to 3"));
  EXPECT_THAT(check_augment({.shift = -1, .flip = true}, kPicture).message(), HasSubstr("got -1"));
  EXPECT_THAT(check_augment({.crop = 0}, kPicture).message(), HasSubstr("crop"));
  EXPECT_THAT(check_augment({.flip = true}, {20}).message(), HasSubstr("needs images"));
  EXPECT_TRUE(check_augment({}, {20}).ok());
  EXPECT_TRUE(check_augment({.shift = 3, .crop = 1, .flip = true}, kPicture).ok());
}

}  // namespace
}  // namespace trireme::data
