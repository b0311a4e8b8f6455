#include "trireme/prepare/gradient_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace trireme::prepare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<plan::Bucket> buckets_of(const std::vector<std::int64_t>& sizes) {
  std::vector<plan::Bucket> buckets;
  for (const std::int64_t size : sizes) buckets.emplace_back().num_elems = size;
  return buckets;
}

TEST(GradientPlaces, AreThoseOfBucketsThatHaveBeenApplied) {
  const GradientPlaces p = place_gradients(buckets_of({320, 100, 112, 96, 16}), {});
  EXPECT_EQ(p.num_elems, 320 + 112);
  EXPECT_THAT(p.offsets, ElementsAre(0, 320, 0, 112, 208));
  EXPECT_THAT(p.after, ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(0), ElementsAre(0), ElementsAre(0)));
}

TEST(GradientPlaces, AreNotMadeWhereNothingIsSaved) {
  EXPECT_EQ(place_gradients(buckets_of({}), {}).num_elems, 0);
  EXPECT_EQ(place_gradients(buckets_of({64, 64}), {}).num_elems, 0);
  EXPECT_EQ(place_gradients(buckets_of({64, 64, 64}), {0}).num_elems, 0) << "the first shares with nobody";
}

TEST(GradientPlaces, OverlapOnlyWhereTheLaterBucketWaits) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> sizes(1 + random() % 12);
    for (std::int64_t& size : sizes) size = 1 + static_cast<std::int64_t>(random() % 500);
    std::set<std::size_t> alone;
    if (round % 2 == 1) alone.insert(random() % sizes.size());
    const GradientPlaces p = place_gradients(buckets_of(sizes), alone);
    if (p.num_elems == 0) continue;
    std::int64_t two = 0, all = 0;
    for (std::size_t b = 0; b < sizes.size(); ++b) {
      all += (sizes[b] + 15) / 16 * 16;
      if (b > 0) two = std::max(two, sizes[b - 1] + sizes[b]);
      EXPECT_EQ(p.offsets[b] % 16, 0);
      EXPECT_LE(p.offsets[b] + sizes[b], p.num_elems);
      for (std::size_t i = 0; i < b; ++i) {
        const bool meet = p.offsets[i] < p.offsets[b] + sizes[b] && p.offsets[b] < p.offsets[i] + sizes[i];
        const bool waits = std::find(p.after[b].begin(), p.after[b].end(), i) != p.after[b].end();
        EXPECT_TRUE(!meet || waits) << "bucket " << b << " over " << i;
        EXPECT_TRUE(!waits || (i + 2 <= b && !alone.contains(i) && !alone.contains(b)));
      }
    }
    EXPECT_GE(p.num_elems, two);
    EXPECT_LT(p.num_elems, all);
  }
}

}  // namespace
}  // namespace trireme::prepare
