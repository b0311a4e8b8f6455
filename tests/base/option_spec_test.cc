#include "trireme/base/option_spec.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

constexpr std::string_view kNames[] = {"random", "ring"};
constexpr OptionSpec kPeriod{.name = "period", .default_value = 10, .range = {.least = 1, .most = 1024}};
constexpr OptionSpec kShare{
    .name = "share",
    .default_value = 0.5,
    .range = {.least = 0, .most = 1, .above_least = true, .words = "above 0 and at most 1"}};
constexpr OptionSpec kLocked{.name = "locked", .default_value = false};
constexpr OptionSpec kPeers{.name = "peers", .default_value = "random", .range = {.choices = kNames}};
constexpr OptionSpec kAll[] = {kPeriod, kShare, kLocked, kPeers};

TEST(OptionValues, AreTheDefaultsOfTheSpecUnlessGiven) {
  OptionValues values;
  EXPECT_EQ(values.integer(kPeriod), 10);
  EXPECT_EQ(values.number(kShare), 0.5);
  EXPECT_FALSE(values.flag(kLocked));
  EXPECT_EQ(values.text(kPeers), "random");
  EXPECT_EQ(values.integer(kPeriod.with_default(3)), 3);
  values.set("period", 7);
  values.set("share", 1);  // an integer is a number
  values.set("locked", true);
  values.set("peers", "ring");
  EXPECT_EQ(values.integer(kPeriod), 7);
  EXPECT_EQ(values.integer(kPeriod.with_default(3)), 7);
  EXPECT_EQ(values.number(kShare), 1);
  EXPECT_TRUE(values.flag(kLocked));
  EXPECT_EQ(values.text(kPeers), "ring");
  EXPECT_EQ(values, (OptionValues{{"locked", true}, {"peers", "ring"}, {"period", 7}, {"share", 1}}));
  values.erase("period");
  values.erase("no such option");
  EXPECT_FALSE(values.has("period"));
  EXPECT_EQ(values.integer(kPeriod), 10);
}

TEST(OptionValues, OfAnotherTypeAbortWithTheNameOfTheOption) {
  OptionValues values;
  values.set("period", "often");
  EXPECT_DEATH(values.integer(kPeriod), "option 'period' is often");
}

TEST(OptionRange, HoldsWhatItSays) {
  EXPECT_TRUE(kPeriod.range.holds(std::int64_t{1}));
  EXPECT_TRUE(kPeriod.range.holds(std::int64_t{1024}));
  EXPECT_FALSE(kPeriod.range.holds(std::int64_t{0}));
  EXPECT_FALSE(kPeriod.range.holds(std::int64_t{1025}));
  EXPECT_EQ(kPeriod.range.text(), "between 1 and 1024");
  EXPECT_FALSE(kShare.range.holds(0.0));
  EXPECT_TRUE(kShare.range.holds(1.0));
  EXPECT_FALSE(kShare.range.holds(std::nan("")));
  EXPECT_FALSE(OptionRange{}.holds(HUGE_VAL)) << "no option is infinite";
  EXPECT_EQ(kShare.range.text(), "above 0 and at most 1");
  EXPECT_TRUE(kPeers.range.holds(std::string("ring")));
  EXPECT_FALSE(kPeers.range.holds(std::string("all")));
  EXPECT_EQ(kPeers.range.text(), "one of: random, ring");
}

TEST(OptionSpecs, AreFoundByName) {
  EXPECT_EQ(find_option(kAll, "share"), &kAll[1]);
  EXPECT_EQ(find_option(kAll, "shares"), nullptr);
  EXPECT_EQ(names_of(kAll), "period, share, locked, peers");
  EXPECT_EQ(names_of({}), "");
}

}  // namespace
}  // namespace trireme
