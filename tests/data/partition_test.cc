#include "trireme/data/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace trireme::data {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

Dataset balanced(std::int64_t num_train, int classes) {
  Dataset set;
  set.name = "balanced";
  set.num_train = num_train;
  set.num_classes = classes;
  for (std::int64_t i = 0; i < num_train; ++i) set.labels.push_back(static_cast<std::int32_t>(i % classes));
  return set;
}

std::set<std::int32_t> classes_of(const Dataset& set, const Ids& ids) {
  std::set<std::int32_t> out;
  for (const std::int64_t id : ids) out.insert(set.label_of(id));
  return out;
}

TEST(Partition, PartsAreDisjointCoverTheSetAndAreEqual) {
  const Dataset set = balanced(103, 10);
  for (const Partition kind : {Partition::kRandom, Partition::kByClass})
    for (const std::int64_t workers : {1, 2, 3, 7, 103, 200}) {
      std::set<std::int64_t> seen;
      for (std::int64_t w = 0; w < workers; ++w) {
        const Ids ids = *partition_samples(set, kind, 1, workers, w);
        EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
        EXPECT_LE(ids.size(), static_cast<std::size_t>(103 / workers + 1));
        EXPECT_GE(ids.size(), static_cast<std::size_t>(103 / workers));
        for (const std::int64_t id : ids) EXPECT_TRUE(seen.insert(id).second) << id;
      }
      EXPECT_EQ(seen.size(), 103U);
    }
}

TEST(Partition, ByClassGivesEachWorkerFewClassesAndRandomGivesAll) {
  const Dataset set = balanced(1000, 10);
  for (std::int64_t w = 0; w < 5; ++w) {
    EXPECT_EQ(
        classes_of(set, *partition_samples(set, Partition::kByClass, 1, 5, w)),
        (std::set<std::int32_t>{static_cast<std::int32_t>(2 * w), static_cast<std::int32_t>(2 * w + 1)}));
    EXPECT_EQ(classes_of(set, *partition_samples(set, Partition::kRandom, 1, 5, w)).size(), 10U);
  }
}

TEST(Partition, DependsOnTheSeedAlone) {
  const Dataset set = balanced(1000, 10);
  for (const Partition kind : {Partition::kRandom, Partition::kByClass}) {
    EXPECT_EQ(*partition_samples(set, kind, 1, 20, 3), *partition_samples(set, kind, 1, 20, 3));
    EXPECT_NE(*partition_samples(set, kind, 1, 20, 3), *partition_samples(set, kind, 2, 20, 3));
  }
}

TEST(Partition, MistakesAreNamed) {
  Dataset set = balanced(10, 2);
  EXPECT_THAT(partition_samples(set, Partition::kRandom, 1, 3, 3).status().message(),
              HasSubstr("worker 3 of 3"));
  EXPECT_THAT(partition_samples(set, Partition::kRandom, 1, 0, 0).status().message(),
              HasSubstr("worker 0 of 0"));
  set.label_kind = Labels::kNone;
  EXPECT_THAT(partition_samples(set, Partition::kByClass, 1, 2, 0).status().message(),
              HasSubstr("has no classes"));
  EXPECT_EQ(*parse_partition("by-class"), Partition::kByClass);
  EXPECT_EQ(*parse_partition("random"), Partition::kRandom);
  EXPECT_THAT(parse_partition("fair").status().message(), HasSubstr("expected random or by-class"));
}

}  // namespace
}  // namespace trireme::data
