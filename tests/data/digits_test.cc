#include "trireme/data/digits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "trireme/base/hash.h"
#include "trireme/data/glyphs.h"

namespace trireme::data {
namespace {

constexpr int kPixels = kDigitSide * kDigitSide;
using Image = std::array<std::uint8_t, kPixels>;

struct Sample {
  int label;
  Image image;
};

Sample draw(std::int64_t index, std::uint64_t seed = DigitSpec{}.seed) {
  Sample s;
  s.label = draw_digit(DigitSpec{seed}, index, s.image);
  return s;
}

std::string bytes_of(const Image& image) { return {image.begin(), image.end()}; }

// SHA-256 over (label byte, 784 image bytes) of each sample in turn.
std::string digest(std::int64_t first, std::int64_t count) {
  Sha256 sha;
  for (std::int64_t i = first; i < first + count; ++i) {
    const Sample s = draw(i);
    sha.update(std::string(1, static_cast<char>(s.label)));
    sha.update(bytes_of(s.image));
  }
  return sha.hex_digest();
}

// Changing a recipe changes every accuracy in the documentation: on purpose only, together with
// docs/digits.md.
TEST(Digits, AreTheSameBitsOnEveryMachine) {
  EXPECT_EQ(digest(0, 500), "0493074fcab3c86172373d2345d5b4241d9d5b42cc9401c5f11ff6c29e72fbb0");
  EXPECT_EQ(digest(kDigitTrain, 500), "70b70dbe63a6916c410c696d30a4263bd9d6a1603c4cb15106770c2005927328");
  EXPECT_EQ(digest(kDigitTrain + kDigitTest - 10, 10),
            "a76f166b1eff84bcfaea5a67467c6829f916ac9453fe10e4bed0f71cca8be0d3");
}

TEST(Digits, DependOnSeedAndIndexOnlyAndNotOnWhatTheBufferHeld) {
  const Sample clean = draw(4321);
  Image dirty;
  dirty.fill(0xA5);
  draw(17);
  EXPECT_EQ(draw_digit({}, 4321, dirty), clean.label);
  EXPECT_EQ(dirty, clean.image);
}

TEST(Digits, OfAnotherSeedAreOtherImagesWithOtherLabels) {
  int equal_labels = 0;
  for (std::int64_t i = 0; i < 500; ++i) {
    const Sample a = draw(i, 1), b = draw(i, 2);
    EXPECT_NE(a.image, b.image) << i;
    equal_labels += a.label == b.label;
  }
  // By chance 50 with a deviation of 6.7.
  EXPECT_GT(equal_labels, 15);
  EXPECT_LT(equal_labels, 85);
}

TEST(Digits, OfTrainAndTestNeverRepeat) {
  std::set<std::string> seen;
  for (std::int64_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(seen.insert(bytes_of(draw(i).image)).second) << "train " << i;
    EXPECT_TRUE(seen.insert(bytes_of(draw(kDigitTrain + i).image)).second) << "test " << i;
  }
}

TEST(Digits, HoldEveryClassOnceInEachRunOfTen) {
  for (std::int64_t first = 0; first < kDigitTrain + kDigitTest; first += 10) {
    unsigned classes = 0;
    for (std::int64_t i = first; i < first + 10; ++i) classes |= 1U << digit_label({}, i);
    ASSERT_EQ(classes, 0x3FFU) << "run at " << first;
  }
}

TEST(Digits, LabelsAreShuffledSoThatThePositionInARunTellsNothing) {
  std::array<std::array<int, 10>, 10> count{};  // [position][label]
  for (std::int64_t i = 0; i < 10000; ++i)
    ++count[static_cast<std::size_t>(i % 10)][static_cast<std::size_t>(digit_label({}, i))];
  for (const auto& row : count)
    for (const int n : row) {  // expected 100, deviation 9.5
      EXPECT_GT(n, 50);
      EXPECT_LT(n, 150);
    }
}

TEST(Digits, DrawingReturnsTheLabelOfTheSample) {
  for (const std::int64_t i :
       {std::int64_t{0}, std::int64_t{9}, kDigitTrain - 1, kDigitTrain, kDigitTrain + kDigitTest - 1})
    EXPECT_EQ(draw(i).label, digit_label({}, i)) << i;
}

TEST(Digits, AreDarkStrokesInTheMiddleOfMostlyBarePaper) {
  std::int64_t sum = 0, edge_ink = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const Image image = draw(i).image;
    int ink = 0;
    for (int p = 0; p < kPixels; ++p) {
      const int value = image[static_cast<std::size_t>(p)], row = p / kDigitSide, col = p % kDigitSide;
      sum += value;
      ink += value > 128;
      const bool edge = row == 0 || col == 0 || row == kDigitSide - 1 || col == kDigitSide - 1;
      edge_ink += edge && value > 128;
    }
    EXPECT_GT(ink, 12) << "image " << i << " is almost empty";
    EXPECT_LT(ink, kPixels * 2 / 5) << "image " << i << " is almost full";
    EXPECT_GT(*std::max_element(image.begin(), image.end()), 130) << "image " << i << " is faint";
  }
  const double mean = static_cast<double>(sum) / (1000 * kPixels);
  EXPECT_GT(mean, 20);
  EXPECT_LT(mean, 50);
  EXPECT_LT(edge_ink, 1000 * 2) << "digits run over the edge";
}

// The mean image of each class is the crudest linear model: labels must match pictures, and it must not be
// enough.
TEST(Digits, AreFarAboveChanceButNotSolvedByTheNearestClassMean) {
  std::array<std::array<double, kPixels>, 10> mean{};
  constexpr int kTrain = 3000, kTest = 1000;
  for (std::int64_t i = 0; i < kTrain; ++i) {
    const Sample s = draw(i);
    auto& m = mean[static_cast<std::size_t>(s.label)];
    for (std::size_t p = 0; p < kPixels; ++p) m[p] += s.image[p] * 10.0 / kTrain;
  }
  int right = 0;
  for (std::int64_t i = 0; i < kTest; ++i) {
    const Sample s = draw(kDigitTrain + i);
    std::array<double, 10> distance{};
    for (std::size_t c = 0; c < 10; ++c)
      for (std::size_t p = 0; p < kPixels; ++p)
        distance[c] += (mean[c][p] - s.image[p]) * (mean[c][p] - s.image[p]);
    right += std::min_element(distance.begin(), distance.end()) - distance.begin() == s.label;
  }
  EXPECT_GT(right, kTest * 50 / 100);
  EXPECT_LT(right, kTest * 85 / 100);
}

TEST(DigitsDeathTest, RefuseAnIndexOutsideTheDataSet) {
  EXPECT_DEATH(digit_label({}, -1), "index -1");
  EXPECT_DEATH(draw(kDigitTrain + kDigitTest), "index 70000");
}

TEST(Glyphs, OfEveryDigitAreSeveralAndWellFormed) {
  for (int digit = 0; digit <= 9; ++digit) {
    EXPECT_GE(glyph_styles(digit).size(), 2U) << digit;
    for (const Glyph glyph : glyph_styles(digit)) {
      ASSERT_GE(glyph.size(), 2U) << digit;
      ASSERT_LE(glyph.size(), static_cast<std::size_t>(kMaxGlyphPoints)) << digit;
      EXPECT_EQ(glyph.front().pen, Pen::kDown) << digit;
      EXPECT_NE(glyph.back().pen, Pen::kDown) << digit << " ends with a stroke of one point";
      int top = 100, foot = 0;
      for (const GlyphPoint& p : glyph) {
        EXPECT_TRUE(p.x >= 10 && p.x <= 90) << digit;
        top = std::min<int>(top, p.y);
        foot = std::max<int>(foot, p.y);
      }
      EXPECT_TRUE(top >= 0 && top <= 10 && foot >= 90 && foot <= 100) << digit << " does not fill its height";
    }
  }
}

}  // namespace
}  // namespace trireme::data
