#include "tests/sharding/random_cuts.h"

#include <gtest/gtest.h>

namespace trireme::parallel::testing {
namespace {

TEST(RandomCuts, GiveWhatTheWholeGraphGives) { expect_random_cuts_give_the_whole(1, 40); }

}  // namespace
}  // namespace trireme::parallel::testing
