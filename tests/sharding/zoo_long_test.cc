// The long form of zoo_test.cc: the large models of the zoo, with a few channels each.
#include <gtest/gtest.h>

#include "tests/sharding/zoo_cases.h"

namespace trireme::parallel::testing {
namespace {

class ShardedLargeZoo : public ::testing::TestWithParam<ZooCase> {};

TEST_P(ShardedLargeZoo, GivesTheLossAndTheGradientsOfTheWhole) {
  expect_every_way_gives_the_whole(GetParam());
}

TEST_P(ShardedLargeZoo, GivesTheSameInChunks) { expect_chunks_give_the_whole(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Zoo, ShardedLargeZoo, ::testing::ValuesIn(large_zoo()),
                         [](const auto& info) { return info.param.label; });

}  // namespace
}  // namespace trireme::parallel::testing
