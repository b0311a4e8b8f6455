#include "trireme/base/units.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Units, DurationsReadWell) {
  EXPECT_EQ(format_duration(0), "0 ns");
  EXPECT_EQ(format_duration(320 * kMicro), "320 us");
  EXPECT_EQ(format_duration(1500 * kMilli), "1.50 s");
  EXPECT_EQ(format_duration(125 * kSecond), "2 min 05 s");
  EXPECT_EQ(format_duration(3720 * kSecond), "1 h 02 min");
  EXPECT_EQ(format_duration(-1500 * kMilli), "-1.50 s");
}

TEST(Units, SizesAndCountsReadWell) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(3 << 19), "1.5 MiB");
  EXPECT_EQ(format_count(12'300), "12.3 k");
  EXPECT_EQ(format_count(4'560'000), "4.56 M");
  EXPECT_EQ(format_count(7), "7");
  EXPECT_EQ(format_integer(1'876), "1,876");
  EXPECT_EQ(format_integer(999), "999");
  EXPECT_EQ(format_integer(-1'234'567), "-1,234,567");
}

TEST(Units, SizesAreParsedWithTheirUnits) {
  EXPECT_EQ(*parse_bytes("512"), 512U);
  EXPECT_EQ(*parse_bytes("64K"), 65536U);
  EXPECT_EQ(*parse_bytes("1 MB"), 1048576U);
  EXPECT_EQ(*parse_bytes("1.5MiB"), 1572864U);
}

TEST(Units, WhatIsNoSizeIsAnErrorThatQuotesIt) {
  for (const char* text : {"", "K", "-1", "1X", "1e30", "12 34"}) {
    const auto parsed = parse_bytes(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find(std::string("'") + text + "'"), std::string::npos);
  }
}

TEST(Units, SecondsRoundToTheNearestNanosecond) {
  EXPECT_EQ(from_seconds(0.0000000016), 2);
  EXPECT_DOUBLE_EQ(to_seconds(1500 * kMilli), 1.5);
}

}  // namespace
}  // namespace trireme
