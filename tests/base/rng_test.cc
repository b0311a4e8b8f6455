#include "trireme/base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace trireme {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers of Philox4x32-10 published with Random123 (kat_vectors).
TEST(Philox, MatchesThePublishedVectors) {
  EXPECT_EQ(philox4x32(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32(~0ULL, {~0U, ~0U, ~0U, ~0U}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32(0x299f31d0a4093822ULL, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, ASequenceIsTheBlocksOfItsStreamInOrder) {
  Philox draws(/*key=*/7, /*stream=*/9);
  for (std::uint32_t block = 0; block < 3; ++block)
    for (const std::uint32_t word : philox4x32(7, {block, 0, 9, 0})) EXPECT_EQ(draws.next_u32(), word);
  Philox later(7, 9, /*offset=*/2);
  EXPECT_EQ(later.next_u32(), philox4x32(7, {2, 0, 9, 0})[0]);
}

TEST(Philox, UniformStaysBelowOneAndFillsTheInterval) {
  EXPECT_EQ(to_uniform(0), 0.0F);
  EXPECT_LT(to_uniform(~0U), 1.0F);
  Philox draws(1);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) sum += draws.next_uniform();
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);  // 5 standard deviations
}

TEST(Philox, NormalHasZeroMeanAndUnitVariance) {
  Philox draws(2);
  double sum = 0, squares = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = draws.next_normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 100000, 0, 0.016);
  EXPECT_NEAR(squares / 100000, 1, 0.023);
}

TEST(Philox, NextBelowIsEvenlySpread) {
  Philox draws(3);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts.at(draws.next_below(7));
  for (const int count : counts) EXPECT_NEAR(count, 10000, 470);  // 5 standard deviations
  EXPECT_EQ(draws.next_below(1), 0U);
}

TEST(Rng, MixedKeysDifferInEveryPart) {
  EXPECT_EQ(mix_key(1, 2, 3), mix_key(1, 2, 3));
  EXPECT_NE(mix_key(1, 2, 3), mix_key(2, 2, 3));
  EXPECT_NE(mix_key(1, 2, 3), mix_key(1, 3, 3));
  EXPECT_NE(mix_key(1, 2, 3), mix_key(1, 2, 4));
  EXPECT_NE(mix_key(1, 2), mix_key(2, 1));
}

TEST(PermuteIndex, IsABijectionForEverySize) {
  for (const std::uint64_t n : {1ULL, 2ULL, 3ULL, 4ULL, 5ULL, 16ULL, 17ULL, 100ULL, 1000ULL, 4097ULL})
    for (std::uint64_t key = 0; key < 3; ++key) {
      std::vector<bool> hit(n);
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t image = permute_index(key, n, i);
        ASSERT_LT(image, n);
        ASSERT_FALSE(hit[image]) << "n " << n << " key " << key << " index " << i;
        hit[image] = true;
      }
    }
}

TEST(PermuteIndex, DependsOnTheKeyAndMovesMostIndices) {
  int fixed = 0, same = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    fixed += permute_index(1, 1000, i) == i;
    same += permute_index(1, 1000, i) == permute_index(2, 1000, i);
  }
  EXPECT_LT(fixed, 20);
  EXPECT_LT(same, 20);
}

TEST(PermuteIndex, WorksForHugeRanges) {
  const std::uint64_t n = (1ULL << 40) + 3;
  EXPECT_LT(permute_index(5, n, n - 1), n);
  EXPECT_NE(permute_index(5, n, 0), permute_index(5, n, 1));
}

}  // namespace
}  // namespace trireme
