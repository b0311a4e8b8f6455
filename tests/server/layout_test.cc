#include "trireme/server/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/base/rng.h"

namespace trireme::server {
namespace {

std::vector<std::int64_t> shares_of(const ServerLayout& layout) {
  std::vector<std::int64_t> shares(static_cast<std::size_t>(layout.num_servers));
  for (const Slice& s : layout.slices) shares[static_cast<std::size_t>(s.server)] += s.end - s.begin;
  return shares;
}

Key plain(std::string name, std::int64_t elems) { return {std::move(name), elems, {}}; }

TEST(ServerLayout, ALargeVectorIsCutEvenlyOverAllServers) {
  const std::vector<Key> keys{plain("w", 1000)};
  const ServerLayout layout = *make_layout(keys, 4, 100);
  ASSERT_EQ(layout.slices.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(layout.slices[i].begin, static_cast<std::int64_t>(i) * 250);
    EXPECT_EQ(layout.slices[i].end, static_cast<std::int64_t>(i) * 250 + 250);
    EXPECT_EQ(layout.slices[i].id, i);
  }
  EXPECT_EQ(shares_of(layout), (std::vector<std::int64_t>(4, 250)));
}

TEST(ServerLayout, SmallVectorsStayWholeAndGoWhereLeastIs) {
  const std::vector<Key> keys{plain("a", 90), plain("b", 50), plain("c", 60), plain("d", 20)};
  const ServerLayout layout = *make_layout(keys, 2, 100);
  ASSERT_EQ(layout.slices.size(), 4U);
  // 90 to server 0, 60 and 50 to server 1, 20 to server 0.
  EXPECT_EQ(layout.slices[0].server, 0);
  EXPECT_EQ(layout.slices[1].server, 1);
  EXPECT_EQ(layout.slices[2].server, 1);
  EXPECT_EQ(layout.slices[3].server, 0);
}

TEST(ServerLayout, AVectorTooSmallForAllServersIsCutOverSomeOfThem) {
  const std::vector<Key> keys{plain("w", 350), plain("v", 250)};
  const ServerLayout layout = *make_layout(keys, 8, 100);
  ASSERT_EQ(layout.slices.size(), 5U);  // three pieces of w, two of v
  std::vector<std::int64_t> shares = shares_of(layout);
  std::sort(shares.begin(), shares.end());
  EXPECT_EQ(shares, (std::vector<std::int64_t>{0, 0, 0, 116, 117, 117, 125, 125}));
}

TEST(ServerLayout, EverySharesDistanceFromTheMeanIsAtMostOneSmallVector) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Philox random(seed, 0);
    const int servers = 1 + static_cast<int>(random.next_below(7));
    std::vector<Key> keys;
    for (std::uint64_t k = 0; k < 1 + random.next_below(20); ++k)
      keys.push_back(plain("k" + std::to_string(k), 1 + static_cast<std::int64_t>(random.next_below(
                                                            random.next_below(4) == 0 ? 9000 : 300))));
    const ServerLayout layout = *make_layout(keys, servers, 256);
    std::int64_t total = 0, largest_small = 0, num_large = 0;
    std::vector<std::int64_t> covered(keys.size());
    for (const Slice& s : layout.slices) {
      EXPECT_EQ(s.begin, covered[s.key]) << "seed " << seed;  // without gap or overlap
      covered[s.key] = s.end;
    }
    for (std::size_t k = 0; k < keys.size(); ++k) {
      EXPECT_EQ(covered[k], keys[k].num_elems) << "seed " << seed;
      total += covered[k];
      if (keys[k].num_elems / 256 >= servers) ++num_large;
    }
    for (const Slice& s : layout.slices)
      if (keys[s.key].num_elems / 256 < servers) largest_small = std::max(largest_small, s.end - s.begin);
    EXPECT_LT(largest_small, 512) << "seed " << seed;
    for (const std::int64_t share : shares_of(layout))
      // Pieces of a large vector differ by one element.
      EXPECT_LE(std::abs(share * servers - total), (largest_small + num_large) * servers) << "seed " << seed;
  }
}

TEST(ServerLayout, CutsFallBetweenRowsAndNeverInsideAPartThatStaysWhole) {
  Key key{"bucket", 1012, {}};
  key.parts = {{"embedding", 0, 700, 7, false}, {"norm", 700, 212, 1, true}, {"bias", 912, 100, 1, false}};
  for (int servers = 2; servers <= 6; ++servers) {
    const ServerLayout layout = *make_layout(std::span(&key, 1), servers, 10);
    EXPECT_GT(layout.slices.size(), 1U);
    for (const Slice& s : layout.slices) {
      if (s.end < 700) {
        EXPECT_EQ(s.end % 7, 0);
      }
      EXPECT_FALSE(s.end > 700 && s.end < 912) << s.end;
    }
  }
}

TEST(ServerLayout, WhatLiesBetweenPartsIsNotKeptUnlessItIsAlignment) {
  Key key{"bucket", 5000, {}};
  key.parts = {{"a", 0, 1000, 1, false}, {"b", 1016, 1000, 1, false}, {"c", 4000, 500, 1, false}};
  const ServerLayout layout = *make_layout(std::span(&key, 1), 1);
  ASSERT_EQ(layout.slices.size(), 2U);
  EXPECT_EQ(layout.slices[0].begin, 0);
  EXPECT_EQ(layout.slices[0].end, 2016);
  EXPECT_EQ(layout.slices[1].begin, 4000);
  EXPECT_EQ(layout.slices[1].end, 4500);
}

TEST(ServerLayout, WorkersHaveEquallyMuchToSendFirstAndEverySliceHasOneSender) {
  const std::vector<Key> keys{plain("a", 20), plain("b", 400), plain("c", 60), plain("d", 100),
                              plain("e", 900)};
  const ServerLayout layout = *make_layout(keys, 2, 100);
  EXPECT_EQ(first_senders(layout, 1), std::vector<int>(layout.slices.size(), 0));
  for (const int workers : {2, 3, 4}) {
    const std::vector<int> senders = first_senders(layout, workers);
    ASSERT_EQ(senders.size(), layout.slices.size());
    std::vector<std::int64_t> elems(static_cast<std::size_t>(workers));
    std::int64_t largest = 0;
    for (const Slice& s : layout.slices) {
      elems.at(static_cast<std::size_t>(senders[s.id])) += s.end - s.begin;
      largest = std::max(largest, s.end - s.begin);
    }
    const auto [least, most] = std::minmax_element(elems.begin(), elems.end());
    EXPECT_LE(*most - *least, largest) << workers;
    EXPECT_GT(*least, 0) << workers;
  }
}

TEST(ServerLayout, WhatMakesNoSenseIsRefused) {
  const std::vector<Key> keys{plain("w", 10)};
  EXPECT_EQ(make_layout(keys, 0).status().code(), Code::kInvalid);
  Key overlap{"w", 10, {{"a", 0, 6, 1, false}, {"b", 5, 5, 1, false}}};
  const Status status = make_layout(std::span(&overlap, 1), 1).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.message().find("part 'b' of 'w'"), std::string::npos) << status.message();
  Key broken_row{"w", 10, {{"a", 0, 10, 3, false}}};
  EXPECT_EQ(make_layout(std::span(&broken_row, 1), 1).status().code(), Code::kInvalid);
  Key too_long{"w", 10, {{"a", 4, 7, 1, false}}};
  EXPECT_EQ(make_layout(std::span(&too_long, 1), 1).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::server
