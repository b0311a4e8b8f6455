#include "trireme/cli/slow.h"

#include <gtest/gtest.h>

namespace trireme::cli {
namespace {

TEST(Slow, RanksAreSlowedDownByTheirFactors) {
  const auto slow = parse_slow({"rank=2,factor=4", "rank=0,factor=1.5", "rank=2,factor=2"});
  ASSERT_TRUE(slow.ok()) << slow.status().to_string();
  EXPECT_EQ(start::slow_factor_of(*slow, 0), 1.5);
  EXPECT_EQ(start::slow_factor_of(*slow, 1), 1);
  EXPECT_EQ(start::slow_factor_of(*slow, 2), 8);
  EXPECT_TRUE(start::check_slow(*slow, 3).ok());
  EXPECT_NE(start::check_slow(*slow, 2).message().find("--slow got rank 2, expected 0 to 1"),
            std::string::npos);
}

TEST(Slow, OtherTextsAreRefused) {
  for (const char* text : {"", "2,4", "rank=2", "factor=4", "rank=,factor=4", "rank=2,factor=",
                           "rank=-1,factor=4", "rank=2,factor=0.5", "rank=2,factor=nan", "rank=2,factor=inf",
                           "rank=2,factor=4x", "rank=2x,factor=4", "rank=2,factor=1001"}) {
    const auto slow = parse_slow({text});
    EXPECT_EQ(slow.status().code(), Code::kInvalid) << text;
    EXPECT_NE(slow.status().message().find("expected rank=R,factor=F"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace trireme::cli
