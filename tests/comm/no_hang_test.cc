// Kill, pause, mute or mis-call any rank at any call, in every collective: nobody hangs, and everybody is
// told the same in time. A failing seed is printed; TRIREME_SEED=N plays that one alone.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/comm/no_hang.h"

namespace trireme::comm::testing {
namespace {

class NoHang : public ::testing::TestWithParam<const char*> {};

TEST_P(NoHang, EverybodyIsToldTheSameInTimeFromAnySeed) {
  const char* only = std::getenv("TRIREME_SEED");
  const std::uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 10) : 0;
  const std::uint64_t end = only != nullptr ? first + 1 : 400;
  for (std::uint64_t seed = first; seed < end && !HasFailure(); ++seed)
    check_scene(draw_scene(seed, GetParam()));
}

TEST_P(NoHang, SameSeedGivesTheSameTrace) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Scene scene = draw_scene(seed, GetParam());
    EXPECT_EQ(trace_of(scene), trace_of(scene)) << scene.text();
  }
}

TEST_P(NoHang, ACallAfterLeaveIsRefused) {
  RankOptions options;
  options.world = 3;
  options.transport = GetParam();
  const Body body = [](runtime::Runtime&, Group& group) -> runtime::Task<void> {
    const Status left = co_await group.leave();
    EXPECT_TRUE(left.ok()) << left.to_string();
    Op op;
    const Status late = co_await make_call(group, op);
    EXPECT_EQ(late.code(), Code::kInvalid) << late.to_string();
    const Status again = co_await group.leave();
    EXPECT_EQ(again.code(), Code::kInvalid) << again.to_string();
  };
  expect_finished(run_virtual(options, {}, body));
}

INSTANTIATE_TEST_SUITE_P(Virtual, NoHang, ::testing::Values("inproc", "shm", "tcp"));

}  // namespace
}  // namespace trireme::comm::testing
