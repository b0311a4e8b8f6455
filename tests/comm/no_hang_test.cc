// Kill, pause, mute or mis-call any rank at any call, in every collective: nobody hangs, and everybody is
// told the same in time. A failing seed is printed; TRIREME_SEED=N plays that one alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "tests/comm/no_hang.h"
#include "tests/sanitizer.h"

namespace trireme::comm::testing {
namespace {

constexpr std::uint64_t kSeeds = num_seeds(400);

class NoHang : public ::testing::TestWithParam<const char*> {};

TEST_P(NoHang, EverybodyIsToldTheSameInTimeFromAnySeed) {
  const char* only = std::getenv("TRIREME_SEED");
  const std::uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 10) : 0;
  const std::uint64_t end = only != nullptr ? first + 1 : kSeeds;
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

// What every rank is told when all make one call, each in its own way.
std::vector<Status> told_of(const char* transport, int world,
                            const std::function<runtime::Task<Status>(Group& group)>& call) {
  std::vector<Status> told(static_cast<std::size_t>(world));
  RankOptions options;
  options.world = world;
  options.transport = transport;
  const Body body = [&](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
    Status& mine = told[static_cast<std::size_t>(group.rank())];
    mine = co_await call(group);
    const Status left = co_await group.leave();
    if (mine.ok()) mine = left;
    EXPECT_LE(rt.now(), 1 * kSecond) << mine.to_string();
  };
  expect_finished(run_virtual(options, {}, body));
  return told;
}

TEST_P(NoHang, BlocksThatDifferWithTheSameSumAreAMismatch) {
  const auto told = told_of(GetParam(), 3, [](Group& group) {
    Call call;
    call.counts = {1, 2, 3};
    if (group.rank() == 1) call.counts = {2, 2, 2};
    return group.allgather(call, Tensor(), tensor_of(std::vector<float>(6)));
  });
  for (const Status& s : told) {
    EXPECT_EQ(s.code(), Code::kMismatch) << s.to_string();
    EXPECT_EQ(s.context().peer, 1) << s.to_string();
    EXPECT_NE(s.context().reason.find("rank 1 called allgather of 6 f32 (bruck, parts #"), std::string::npos)
        << s.to_string();
  }
}

// The messages carry the root modulo 64.
TEST_P(NoHang, RootsThatMessagesCannotTellApartAreAMismatch) {
  const auto told = told_of(GetParam(), 66, [](Group& group) {
    Call call;
    call.root = group.rank() == 1 ? 65 : 1;
    return group.reduce(call, tensor_of(std::vector<float>(6)));
  });
  for (const Status& s : told) {
    EXPECT_EQ(s.code(), Code::kMismatch) << s.to_string();
    EXPECT_EQ(s.context().peer, 1) << s.to_string();
    EXPECT_NE(s.context().reason.find("to root 65"), std::string::npos) << s.to_string();
  }
}

// A slot and step may serve again when the call has ended, although others are still in the call before.
TEST_P(NoHang, ANameThatIsUsedAgainIsAnotherCall) {
  RankOptions options;
  options.world = 4;
  options.transport = GetParam();
  const Body body = [](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
    for (int turn = 0; turn < 6; ++turn) {
      const TimeNs away = group.rank() == turn % 4 ? kSecond : 0;
      co_await rt.sleep_for(away);
      Op op;
      op.kind = turn % 2 == 0 ? collective::Kind::kBroadcast : collective::Kind::kGather;
      op.root = turn % 3;
      op.count = 10 + turn;
      const Status status = co_await make_call(group, op);
      EXPECT_TRUE(status.ok()) << status.to_string();
    }
    const Status left = co_await group.leave();
    EXPECT_TRUE(left.ok()) << left.to_string();
  };
  expect_finished(run_virtual(options, {}, body));
}

INSTANTIATE_TEST_SUITE_P(Virtual, NoHang, ::testing::Values("inproc", "shm", "tcp"));

}  // namespace
}  // namespace trireme::comm::testing
