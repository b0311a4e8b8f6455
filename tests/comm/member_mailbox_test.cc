// Letters among replicas of several ranks.
#include "trireme/comm/member_mailbox.h"

#include <gtest/gtest.h>

#include "tests/comm/ranks.h"
#include "trireme/comm/letter_kinds.h"

namespace trireme::comm {
namespace {

using runtime::Runtime;
using runtime::Task;

struct WhoAnswer {
  std::int64_t peer = 0;
  static constexpr auto kFields = head_fields(at<16>(&WhoAnswer::peer));
};
struct WhoHead {
  static constexpr std::uint16_t kKind = kLetterUserFirst + 5;
  static constexpr auto kFields = head_fields();
  using Answer = WhoAnswer;
};

// A mesh of data 2, model 2: ranks 1 and 3 speak for the replicas {0, 1} and {2, 3} along their line.
TEST(MemberMailbox, PeersAreMembersInBothDirections) {
  testing::RankOptions options;
  options.world = 4;
  const auto result = testing::run_virtual(options, {}, [](Runtime& rt, Group& group) -> Task<void> {
    const int rank = group.rank(), tile = rank % 2, replica = rank / 2;
    const std::vector<std::vector<int>> members{{tile, 1 - tile}, {2 + tile, 3 - tile}};
    EXPECT_FALSE(are_plain_ranks(members));
    const auto mail = make_member_mailbox(group.mailbox(), members);
    const auto answer = [&](int peer, Ticket<WhoAnswer> asked) -> Task<void> {
      const WhoAnswer who{peer};
      const net::View nothing;
      EXPECT_TRUE((co_await mail->reply(peer, asked, who, nothing)).ok());
    };
    mail->handle<WhoHead>(
        {nullptr, [&](int peer, const Letter<WhoHead>& letter) { rt.spawn(answer(peer, letter.ticket)); }});
    const net::View nothing;
    const WhoHead who;
    for (const int peer : {0, 1}) {
      EXPECT_TRUE(mail->is_alive(peer));
      const auto told = co_await mail->ask(peer, who, nothing, nothing);
      EXPECT_TRUE(told.ok()) << told.status().to_string();
      if (told.ok()) {
        EXPECT_EQ(told->head.peer, replica) << "asked by rank " << rank;
      }
    }
    EXPECT_FALSE(mail->is_alive(2));
    EXPECT_EQ((co_await mail->send(2, who, nothing)).code(), Code::kInvalid);
    EXPECT_TRUE((co_await group.leave()).ok());
  });
  testing::expect_finished(result);
}

TEST(MemberMailbox, AMemberIsLostOnceWithTheRankThatWritesForIt) {
  testing::RankOptions options;
  options.world = 5;
  runtime::WorldSpec spec;
  runtime::FaultSpec kill;
  kill.runtime = 4;
  kill.at = 5 * kMilli;
  runtime::FaultSpec other = kill;
  other.runtime = 3;
  other.at = 50 * kMilli;
  spec.faults = {kill, other};
  std::vector<std::vector<int>> lost(3);
  testing::run_virtual(options, spec, [&](Runtime& rt, Group& group) -> Task<void> {
    EXPECT_TRUE(group.set_expendable({3, 4}).ok());
    const auto mail = make_member_mailbox(group.mailbox(), {{0}, {1, 2}, {3, 4}});
    const int rank = group.rank();
    if (rank < 3)
      mail->on_lost(
          [&, rank](int peer, const Status&) { lost[static_cast<std::size_t>(rank)].push_back(peer); });
    co_await rt.sleep_for(30 * kMilli);  // rank 4 is lost, which writes for nobody
    if (rank < 3) {
      EXPECT_TRUE(mail->is_alive(2));
      EXPECT_TRUE(lost[static_cast<std::size_t>(rank)].empty());
    }
    co_await rt.sleep_for(3 * kSecond);
    if (rank < 3) {
      EXPECT_FALSE(mail->is_alive(2));
      EXPECT_TRUE(mail->is_alive(1));
      EXPECT_TRUE((co_await group.leave()).ok());
    }
  });
  for (const auto& of_rank : lost) EXPECT_EQ(of_rank, std::vector<int>{2});
}

TEST(MemberMailbox, OfRanksThatAreTheirOwnMembersIsNotNeeded) {
  EXPECT_TRUE(are_plain_ranks({{0}, {1}, {2}}));
  EXPECT_FALSE(are_plain_ranks({{0}, {2}}));
  EXPECT_FALSE(are_plain_ranks({{0, 1}}));
}

}  // namespace
}  // namespace trireme::comm
