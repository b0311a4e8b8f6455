// The long form of random_cuts_test.cc.
#include <gtest/gtest.h>

#include "tests/sharding/random_cuts.h"

namespace trireme::parallel::testing {
namespace {

TEST(RandomCutsLong, GiveWhatTheWholeGraphGives) { expect_random_cuts_give_the_whole(1000, 1500); }

}  // namespace
}  // namespace trireme::parallel::testing
