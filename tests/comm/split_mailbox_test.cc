// One mailbox as several, by who writes.
#include "trireme/comm/split_mailbox.h"

#include <gtest/gtest.h>

#include "tests/comm/ranks.h"
#include "trireme/comm/letter_kinds.h"

namespace trireme::comm {
namespace {

using runtime::Runtime;
using runtime::Task;

struct PartAnswer {
  std::int64_t part = 0, peer = 0;
  static constexpr auto kFields = head_fields(at<16>(&PartAnswer::part), at<24>(&PartAnswer::peer));
};
struct PartHead {
  static constexpr std::uint16_t kKind = kLetterUserFirst + 6;
  static constexpr auto kFields = head_fields();
  using Answer = PartAnswer;
};

TEST(SplitMailbox, LettersComeToTheMailboxOfTheirSender) {
  testing::RankOptions options;
  options.world = 4;
  const auto result = testing::run_virtual(options, {}, [](Runtime& rt, Group& group) -> Task<void> {
    std::vector<std::unique_ptr<Mailbox>> parts;
    const auto answer = [&](int part, int peer, Ticket<PartAnswer> asked) -> Task<void> {
      const PartAnswer told{part, peer};
      const net::View nothing;
      EXPECT_TRUE((co_await parts[static_cast<std::size_t>(part)]->reply(peer, asked, told, nothing)).ok());
    };
    if (group.rank() == 3) {
      parts = split_mailbox(group.mailbox(), {0, 1, 0});
      EXPECT_EQ(parts.size(), 2U);
      parts[0]->handle<PartHead>({nullptr, [&](int peer, const Letter<PartHead>& letter) {
                                    rt.spawn(answer(0, peer, letter.ticket));
                                  }});
      co_await rt.sleep_for(5 * kMilli);  // letters wait until all parts handle them
      parts[1]->handle<PartHead>({nullptr, [&](int peer, const Letter<PartHead>& letter) {
                                    rt.spawn(answer(1, peer, letter.ticket));
                                  }});
    } else {
      const net::View nothing;
      const PartHead head;
      const TimeNs asked = rt.now();
      const auto told = co_await group.mailbox().ask(3, head, nothing, nothing);
      EXPECT_TRUE(told.ok()) << told.status().to_string();
      EXPECT_GE(rt.now() - asked, 5 * kMilli);
      if (told.ok()) {
        EXPECT_EQ(told->head.part, group.rank() % 2);
        EXPECT_EQ(told->head.peer, group.rank());
      }
    }
    EXPECT_TRUE((co_await group.leave()).ok());
    for (const auto& part : parts) part->stop_handling<PartHead>();
  });
  testing::expect_finished(result);
}

}  // namespace
}  // namespace trireme::comm
