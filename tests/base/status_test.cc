#include "trireme/base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace trireme {
namespace {

TEST(Status, IsOkByDefaultAndAPrefixKeepsItSo) {
  const Status ok;
  EXPECT_TRUE(ok.ok());
  EXPECT_EQ(ok.code(), Code::kOk);
  EXPECT_EQ(ok.message(), "");
  EXPECT_EQ(ok.to_string(), "ok");
  EXPECT_TRUE(ok.with_prefix("x: ").ok());
}

TEST(Status, CarriesCodeMessageAndContextThroughCopiesAndPrefixes) {
  ErrorContext context;
  context.rank = 1;
  context.peer = 2;
  context.operation = "allreduce";
  const Status failed(Code::kPeerLost, "[comm] gone", context);
  const Status copy = failed.with_prefix("job: ");
  EXPECT_EQ(copy.message(), "job: [comm] gone");
  EXPECT_EQ(copy.to_string(), "peer lost: job: [comm] gone");
  EXPECT_EQ(copy.context().peer, 2);
  EXPECT_EQ(copy.context().operation, "allreduce");
}

TEST(Status, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Code::kInternal); ++i) names.insert(code_name(static_cast<Code>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Code::kInternal) + 1);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(Result, HoldsAValueOrAFailure) {
  Result<std::unique_ptr<int>> good = std::make_unique<int>(4);
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(**good, 4);
  EXPECT_TRUE(good.status().ok());
  const std::unique_ptr<int> taken = *std::move(good);
  EXPECT_EQ(*taken, 4);
  const Result<int> bad = error(Code::kInvalid, "[x] got {}", 3);
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().message(), "[x] got 3");
}

Result<int> half(int x) {
  if (x % 2 != 0) return error(Code::kInvalid, "odd {}", x);
  return x / 2;
}
Result<int> quarter(int x) {
  TR_ASSIGN_OR_RETURN(const int h, half(x));
  TR_RETURN_IF_ERROR(half(h).status());
  return h / 2;
}

TEST(Result, MacrosLeaveWithTheFirstFailure) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(7).status().message(), "odd 7");
  EXPECT_EQ(quarter(6).status().message(), "odd 3");
}

TEST(ResultDeathTest, TheValueOfAFailureAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Result<int> bad = error(Code::kInvalid, "no value");
  EXPECT_DEATH((void)*bad, "value\\(\\) of a failed Result: .*no value");
  EXPECT_DEATH((void)Result<int>(Status()), "got an ok Status");
  EXPECT_DEATH(TR_CHECK(1 == 2, "got {}", 5), "invariant broken: 1 == 2: got 5");
}

}  // namespace
}  // namespace trireme
