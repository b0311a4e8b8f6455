// Busy cores: which numbers of them are measured.
#include "trireme/measure/busy.h"

#include <gtest/gtest.h>

#include "trireme/runtime/real/real_runtime.h"

namespace trireme::measure {
namespace {

TEST(BusyCores, AreOneTwoFourAndAll) {
  cost::Calibration c;
  ASSERT_TRUE(measure_busy(true, c).ok());
  ASSERT_FALSE(c.busy.empty());
  EXPECT_EQ(c.busy.front().cores, 1);
  EXPECT_EQ(c.busy.back().cores, runtime::num_cores());
  for (std::size_t i = 0; i < c.busy.size(); ++i) {
    EXPECT_GT(c.busy[i].flops_per_second_per_core, 0);
    EXPECT_GT(c.busy[i].bytes_per_second, 0);
    const int before = i > 0 ? c.busy[i - 1].cores : 0;
    EXPECT_EQ(c.busy[i].cores, std::min(std::max(1, 2 * before), c.busy.back().cores));
  }
}

}  // namespace
}  // namespace trireme::measure
