// Small models of the zoo, cut over 2 and 3 positions in several ways: the graphs of the positions give the
// loss and all gradients of the whole graph, in f64.
#include <gtest/gtest.h>

#include "tests/sharding/zoo_cases.h"

namespace trireme::parallel::testing {
namespace {

class ShardedZoo : public ::testing::TestWithParam<ZooCase> {};

TEST_P(ShardedZoo, GivesTheLossAndTheGradientsOfTheWhole) { expect_every_way_gives_the_whole(GetParam()); }

TEST_P(ShardedZoo, GivesTheSameInChunks) { expect_chunks_give_the_whole(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Zoo, ShardedZoo, ::testing::ValuesIn(small_zoo()),
                         [](const auto& info) { return info.param.label; });

}  // namespace
}  // namespace trireme::parallel::testing
