// Letters: order, payloads into place, answers, letters to oneself; every transport, threads and virtual
// time.
#include "trireme/comm/mailbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "tests/comm/ranks.h"
#include "trireme/comm/letter_kinds.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {
namespace {

using runtime::Runtime;
using runtime::Task;

struct NoteAnswer {
  std::int64_t number = 0;
  static constexpr auto kFields = head_fields(at<16>(&NoteAnswer::number));
};
struct NoteHead {
  static constexpr std::uint16_t kKind = kLetterUserFirst;
  std::int64_t number = 0;
  std::uint32_t key = 0;
  double value = 0;
  static constexpr auto kFields =
      head_fields(at<4>(&NoteHead::key), at<16>(&NoteHead::number), at<24>(&NoteHead::value));
  using Answer = NoteAnswer;
};
struct OtherHead {
  static constexpr std::uint16_t kKind = kLetterUserFirst + 1;
  static constexpr auto kFields = head_fields();
};
using Note = Letter<NoteHead>;
using Other = Letter<OtherHead>;

net::View view(std::vector<float>& v) {
  return {reinterpret_cast<std::byte*>(v.data()), v.size() * sizeof(float)};
}
template <typename Head>
Mailbox::Handler<Head> counts(int* count) {
  return {.place = {}, .arrived = [count](int, const Letter<Head>&) { ++*count; }};
}

// Waits until `condition`, looking now and then.
template <typename Condition>
Task<void> until(Runtime& rt, Condition condition) {
  while (!condition()) co_await rt.sleep_for(100 * kMicro);
}

// Where ranks may be: the transport and whether on threads.
struct Place {
  const char* transport;
  bool threads;
};
class Letters : public ::testing::TestWithParam<Place> {
 protected:
  void run(int world, const testing::Body& body) {
    testing::RankOptions options;
    options.world = world;
    options.transport = GetParam().transport;
    const auto folder =
        std::filesystem::temp_directory_path() /
        (std::string("mail-") + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
         std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + std::to_string(getpid()));
    if (GetParam().threads) {
      std::filesystem::create_directories(folder);
      options.rendezvous = folder;
      testing::run_on_threads(options, body);
      std::filesystem::remove_all(folder);
    } else {
      runtime::WorldSpec spec;
      spec.latency_jitter = 0.5;
      testing::expect_finished(testing::run_virtual(options, spec, body));
    }
  }
};

TEST_P(Letters, OfAPairArriveInOrderWithTheirPayloadsInPlace) {
  constexpr int kCount = 200;
  run(3, [](Runtime& rt, Group& group) -> Task<void> {
    Mailbox& mail = group.mailbox();
    // From each peer: a letter's number is its turn, its payload number * 37 values or none.
    const auto size_of = [](std::int64_t n) { return static_cast<std::size_t>(n % 3 == 0 ? 0 : n * 37); };
    std::vector<std::vector<std::vector<float>>> got(3, std::vector<std::vector<float>>(kCount));
    std::vector<std::int64_t> next(3);
    Mailbox::Handler<NoteHead> handler;
    handler.place = [&](int peer, const Note& l) -> Result<net::View> {
      auto& into = got[static_cast<std::size_t>(peer)][static_cast<std::size_t>(l.head.number)];
      into.resize(l.bytes / sizeof(float));
      return view(into);
    };
    handler.arrived = [&](int peer, const Note& l) {
      const auto p = static_cast<std::size_t>(peer);
      EXPECT_EQ(l.head.number, next[p]++);
      EXPECT_EQ(l.head.value, 0.25 * static_cast<double>(peer));
      EXPECT_EQ(l.bytes, size_of(l.head.number) * sizeof(float));
      for (const float v : got[p][static_cast<std::size_t>(l.head.number)])
        ASSERT_EQ(v, static_cast<float>(l.head.number + 1000 * peer));
    };
    mail.handle(std::move(handler));
    std::vector<std::vector<float>> out;
    for (int n = 0; n < kCount; ++n)
      out.emplace_back(size_of(n), static_cast<float>(n + 1000 * group.rank()));
    std::vector<Task<Status>> tasks;
    for (int n = 0; n < kCount; ++n)
      for (int peer = 0; peer < 3; ++peer) {  // oneself too
        NoteHead l{n};
        l.value = 0.25 * static_cast<double>(group.rank());
        tasks.push_back(mail.send(peer, l, view(out[static_cast<std::size_t>(n)])));
      }
    const Status sent = co_await runtime::when_all(rt, std::move(tasks));
    EXPECT_TRUE(sent.ok()) << sent.to_string();
    co_await until(rt, [&] { return next == std::vector<std::int64_t>(3, kCount); });
    const Status left = co_await group.leave();
    EXPECT_TRUE(left.ok()) << left.to_string();
  });
}

// Rank 0 asks everybody, itself too, and the later a question the sooner its answer.
TEST_P(Letters, AnswersOvertakeEachOtherAndGoStraightIntoPlace) {
  const bool virtual_time = !GetParam().threads;
  run(3, [virtual_time](Runtime& rt, Group& group) -> Task<void> {
    constexpr int kCount = 8;
    Mailbox& mail = group.mailbox();
    std::vector<std::pair<int, Note>> asked;
    std::vector<float> question(100);
    Mailbox::Handler<NoteHead> handler;
    handler.place = [&](int, const Note&) -> Result<net::View> { return view(question); };
    handler.arrived = [&](int peer, const Note& l) {
      EXPECT_EQ(question[99], 7.0F);
      asked.emplace_back(peer, l);
    };
    mail.handle(std::move(handler));
    Call done;
    done.label = "done";
    std::vector<int> order;
    std::vector<std::vector<float>> answers(3 * kCount);
    std::vector<float> out(100, 7.0F);
    const auto put = [&](int peer, int n) -> Task<Status> {
      auto& into = answers[static_cast<std::size_t>(peer * kCount + n)];
      into.assign(200, 0);  // more room than the answer takes
      const NoteHead l{n};
      const net::View payload = view(out), place = view(into);
      const auto answer = co_await mail.ask(peer, l, payload, place);
      EXPECT_TRUE(answer.ok()) << answer.status().to_string();
      if (!answer.ok()) co_return answer.status();
      EXPECT_EQ(answer->head.number, 100 * peer + n);
      EXPECT_EQ(answer->bytes, 150 * sizeof(float));
      EXPECT_EQ(into[0], static_cast<float>(n));
      EXPECT_EQ(into[149], static_cast<float>(n));
      EXPECT_EQ(into[150], 0.0F);
      if (peer == 1) order.push_back(n);
      co_return ok_status();
    };
    const auto answer_all = [&]() -> Task<Status> {
      co_await until(rt, [&] { return asked.size() == kCount; });
      for (auto at = asked.rbegin(); at != asked.rend(); ++at) {
        std::vector<float> values(150, static_cast<float>(at->second.head.number));
        const NoteAnswer l{100 * group.rank() + at->second.head.number};
        const net::View payload = view(values);
        const Status replied = co_await mail.reply(at->first, at->second.ticket, l, payload);
        EXPECT_TRUE(replied.ok()) << replied.to_string();
      }
      co_return ok_status();
    };
    std::vector<Task<Status>> tasks;
    tasks.push_back(answer_all());
    for (int peer = 0; peer < 3 && group.rank() == 0; ++peer)
      for (int n = 0; n < kCount; ++n) tasks.push_back(put(peer, n));
    const Status all = co_await runtime::when_all(rt, std::move(tasks));
    EXPECT_TRUE(all.ok()) << all.to_string();
    if (group.rank() == 0) {
      // A question whose letter is still leaving hears its answer later; the others need not wait. On threads
      // of a busy machine all letters may be leaving still.
      if (virtual_time) {
        EXPECT_GT(order.front(), order.back());
      }
      std::sort(order.begin(), order.end());
      const std::vector<int> each{0, 1, 2, 3, 4, 5, 6, 7};
      EXPECT_EQ(order, each);
    }
    const Status left = co_await group.leave();
    EXPECT_TRUE(left.ok()) << left.to_string();
  });
}

TEST_P(Letters, OfAKindThatNobodyHandlesYetWaitAndDoNotStopOthers) {
  run(2, [](Runtime& rt, Group& group) -> Task<void> {
    Mailbox& mail = group.mailbox();
    int others = 0, self = 0;
    std::vector<std::int64_t> order;
    std::vector<float> into(1000), mine(1000, 3.0F);
    mail.handle(counts<OtherHead>(&others));
    const int other = 1 - group.rank();
    const net::View payload = view(mine), nothing{};
    for (int n = 0; n < 5; ++n) {
      const NoteHead late{n};
      const OtherHead known;
      EXPECT_TRUE((co_await mail.send(other, late, payload)).ok());
      EXPECT_TRUE((co_await mail.send(group.rank(), late, payload)).ok());
      EXPECT_TRUE((co_await mail.send(other, known, nothing)).ok());
    }
    std::fill(mine.begin(), mine.end(), 0.0F);
    co_await until(rt, [&] { return others == 5; });
    Mailbox::Handler<NoteHead> handler;
    handler.place = [&](int, const Note&) -> Result<net::View> { return view(into); };
    handler.arrived = [&](int peer, const Note& l) {
      EXPECT_EQ(into[999], 3.0F);
      if (peer == other) order.push_back(l.head.number);
      self += peer == other ? 0 : 1;
    };
    mail.handle(std::move(handler));
    co_await until(rt, [&] { return order.size() == 5 && self == 5; });
    EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

// The reader of a ring or a socket has the next payload in hand before the loop turns.
TEST_P(Letters, WithLargePayloadsRunBothWaysBesideCollectives) {
  run(3, [](Runtime& rt, Group& group) -> Task<void> {
    constexpr std::size_t kElems = 300'000;
    constexpr int kCount = 4;
    Mailbox& mail = group.mailbox();
    std::vector<std::vector<float>> in;
    in.reserve(64);
    int there = 0;
    Mailbox::Handler<NoteHead> handler;
    handler.place = [&](int, const Note& l) -> Result<net::View> {
      in.emplace_back(l.bytes / sizeof(float));
      return view(in.back());
    };
    handler.arrived = [&](int, const Note&) { ++there; };
    mail.handle(std::move(handler));
    std::vector<float> mine(kElems);
    std::iota(mine.begin(), mine.end(), 0.0F);
    std::vector<Task<Status>> tasks;
    for (int n = 0; n < kCount; ++n) {
      for (int peer = 0; peer < 3; ++peer) tasks.push_back(mail.send(peer, NoteHead{n}, view(mine)));
      Call call;
      call.step = static_cast<std::uint32_t>(n);
      call.label = "beside";
      tasks.push_back(group.allreduce(call, testing::tensor_of(std::vector<float>(50'000, 1.0F))));
    }
    const Status all = co_await runtime::when_all(rt, std::move(tasks));
    EXPECT_TRUE(all.ok()) << all.to_string();
    co_await until(rt, [&] { return there == 3 * kCount; });
    for (const auto& v : in) EXPECT_TRUE(v == mine);
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST_P(Letters, WithAPlaceThatIsRefusedEndTheGroupWithTheSenderAsCulprit) {
  std::vector<Status> verdicts(3), asked(3);
  run(3, [&](Runtime&, Group& group) -> Task<void> {
    const auto me = static_cast<std::size_t>(group.rank());
    Mailbox& mail = group.mailbox();
    Mailbox::Handler<NoteHead> handler;
    handler.place = [](int, const Note& l) -> Result<net::View> {
      return error(Code::kInvalid, "[server] key {} has 4 values: got {} bytes", l.head.key, l.bytes);
    };
    mail.handle(std::move(handler));
    std::vector<float> values(10);
    NoteHead l{};
    l.key = 9;
    const net::View payload = view(values), into{};
    if (group.rank() == 1) {
      // Never answered: the verdict ends it.
      const auto answer = co_await mail.ask(2, l, payload, into);
      EXPECT_FALSE(answer.ok());
      asked[1] = answer.status();
    }
    verdicts[me] = co_await group.leave();
    const Status later = co_await mail.send(0, l, into);
    EXPECT_EQ(later.message(), verdicts[me].message());
  });
  for (const Status& v : verdicts) {
    EXPECT_EQ(v.code(), Code::kInvalid) << v.to_string();
    EXPECT_EQ(v.context().peer, 1);
    EXPECT_EQ(v.context().operation, "a letter of kind 48, key 9");
    EXPECT_EQ(v.context().reason, "[server] key 9 has 4 values: got 40 bytes");
  }
  EXPECT_EQ(asked[1].message(), verdicts[1].message());
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Letters,
                         ::testing::Values(Place{"inproc", false}, Place{"shm", false}, Place{"tcp", false},
                                           Place{"inproc", true}, Place{"shm", true}, Place{"tcp", true}),
                         [](const auto& param) {
                           return std::string(param.param.transport) +
                                  (param.param.threads ? "OnThreads" : "Virtual");
                         });

// ---- Who waits for letters is not to blame

struct Patience : public ::testing::Test {
  testing::VirtualResult play(int world, const testing::Body& body, bool phantom = false) {
    testing::RankOptions options;
    options.world = world;
    options.group.membership.standstill = 20 * kSecond;
    runtime::WorldSpec spec;
    spec.phantom = phantom;
    auto result = testing::run_virtual(options, spec, body);
    testing::expect_finished(result);
    return result;
  }
};

// Rank 0 answers rank 1 when it has heard of rank 2, which takes its time and does not even compute.
TEST_F(Patience, AnAnswerThatIsHeldBackForAThirdRankIsWaitedFor) {
  play(3, [](Runtime& rt, Group& group) -> Task<void> {
    Mailbox& mail = group.mailbox();
    Note held;
    const net::View nothing{};
    const auto answer = [&]() -> Task<void> {
      const NoteAnswer l{5};
      const Status replied = co_await mail.reply(1, held.ticket, l, nothing);
      EXPECT_TRUE(replied.ok()) << replied.to_string();
    };
    Mailbox::Handler<NoteHead> asked;
    Mailbox::Handler<OtherHead> told;
    asked.arrived = [&](int, const Note& l) { held = l; };
    told.arrived = [&](int, const Other&) { rt.spawn(answer()); };
    mail.handle(std::move(asked));
    mail.handle(std::move(told));
    if (group.rank() == 1) {
      const NoteHead l{};
      const auto got = co_await mail.ask(0, l, nothing, nothing);
      EXPECT_TRUE(got.ok()) << got.status().to_string();
      EXPECT_EQ(got.ok() ? got->head.number : 0, 5);
      EXPECT_GE(rt.now(), 15 * kSecond);
    }
    if (group.rank() == 2) {
      co_await rt.sleep_for(15 * kSecond);
      const OtherHead l;
      EXPECT_TRUE((co_await mail.send(0, l, nothing)).ok());
    }
    const Status left = co_await group.leave();
    EXPECT_TRUE(left.ok()) << left.to_string();
  });
}

// Ranks 0 and 1 are in a barrier that rank 2 comes to only after a letter of rank 3.
TEST_F(Patience, ARankThatComesLateToACollectiveBecauseOfALetterIsNotStuck) {
  play(4, [](Runtime& rt, Group& group) -> Task<void> {
    Mailbox& mail = group.mailbox();
    int came = 0;
    mail.handle(counts<NoteHead>(&came));
    if (group.rank() == 3) {
      co_await rt.sleep_for(15 * kSecond);
      const NoteHead l{};
      const net::View nothing{};
      EXPECT_TRUE((co_await mail.send(2, l, nothing)).ok());
    }
    while (group.rank() == 2 && came == 0) co_await rt.sleep_for(kSecond);
    Call call;
    call.label = "late";
    const Status met = co_await group.barrier(call);
    EXPECT_TRUE(met.ok()) << met.to_string();
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST_F(Patience, EndsWhenNobodyDoesAnything) {
  std::vector<Status> left(3);
  play(3, [&](Runtime& rt, Group& group) -> Task<void> {
    Mailbox& mail = group.mailbox();
    int came = 0;
    mail.handle(counts<NoteHead>(&came));
    NoteHead l{};
    l.key = 4;
    const net::View nothing{};
    if (group.rank() != 2) {
      const auto got = co_await mail.ask(2, l, nothing, nothing);  // which never answers
      EXPECT_EQ(got.status().code(), Code::kDeadline) << got.status().to_string();
      EXPECT_LE(rt.now(), 21 * kSecond);
      EXPECT_GE(rt.now(), 20 * kSecond);
    } else {
      while (group.verdict().ok()) co_await rt.sleep_for(kSecond);
    }
    left[static_cast<std::size_t>(group.rank())] = co_await group.leave();
  });
  for (const Status& s : left) {
    EXPECT_EQ(s.context().peer, 2) << s.to_string();
    EXPECT_EQ(s.context().operation, "a letter of kind 48, key 4");
    EXPECT_EQ(s.context().reason, "no rank did anything for 20.00 s, rank 0 waits for it");
  }
}

// Only the sizes of phantom payloads travel, but letters say what they say.
TEST_F(Patience, OfPhantomPayloadsOnlySizesTravel) {
  const auto result = play(
      3,
      [](Runtime& rt, Group& group) -> Task<void> {
        constexpr std::uint64_t kBytes = std::uint64_t{1} << 27;
        Mailbox& mail = group.mailbox();
        const net::View payload{nullptr, kBytes};
        const auto answer = [&](int peer, Note asked) -> Task<void> {
          const NoteAnswer l{asked.head.number + 1};
          EXPECT_TRUE((co_await mail.reply(peer, asked.ticket, l, payload)).ok());
        };
        Mailbox::Handler<NoteHead> handler;
        handler.place = [](int, const Note& l) -> Result<net::View> { return net::View{nullptr, l.bytes}; };
        handler.arrived = [&](int peer, const Note& l) { rt.spawn(answer(peer, l)); };
        mail.handle(std::move(handler));
        for (int peer = 0; peer < 3; ++peer) {
          const NoteHead l{10 * peer};
          const auto got = co_await mail.ask(peer, l, payload, payload);
          EXPECT_TRUE(got.ok()) << got.status().to_string();
          if (!got.ok()) continue;
          EXPECT_EQ(got->head.number, 10 * peer + 1);
          EXPECT_EQ(got->bytes, kBytes);
        }
        EXPECT_TRUE((co_await group.leave()).ok());
      },
      true);
  // Per rank two payloads there and two back, each 0.107 s on its link.
  EXPECT_GT(result.report.end_time, 420 * kMilli);
}

TEST_F(Patience, AHandlerThatIsRemovedHearsNoMoreOfWhatIsOnItsWay) {
  play(2, [](Runtime& rt, Group& group) -> Task<void> {
    Mailbox& mail = group.mailbox();
    std::vector<float> values(5'000'000), into(5'000'000);  // 16 ms
    int placed = 0, arrived = 0;
    Mailbox::Handler<NoteHead> handler;
    handler.place = [&](int, const Note&) -> Result<net::View> {
      ++placed;
      return view(into);
    };
    handler.arrived = [&](int, const Note&) { ++arrived; };
    mail.handle(std::move(handler));
    const NoteHead l{};
    const net::View payload = view(values);
    if (group.rank() == 1) {
      EXPECT_TRUE((co_await mail.send(0, l, payload)).ok());
    } else {
      co_await rt.sleep_for(5 * kMilli);
      EXPECT_EQ(placed, 1);
      mail.stop_handling<NoteHead>();
      co_await rt.sleep_for(100 * kMilli);
    }
    EXPECT_EQ(arrived, 0);
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST_F(Patience, AQuestionThatIsGivenUpDoesNoHarm) {
  play(2, [](Runtime& rt, Group& group) -> Task<void> {
    Mailbox& mail = group.mailbox();
    std::vector<float> values(5000, 2.0F), into(5000);
    const auto answer = [&](int peer, Note asked) -> Task<void> {
      co_await rt.sleep_for(100 * kMilli);
      const NoteAnswer l{asked.head.number};
      const net::View payload = view(values);
      EXPECT_TRUE((co_await mail.reply(peer, asked.ticket, l, payload)).ok());
    };
    Mailbox::Handler<NoteHead> handler;
    handler.arrived = [&](int peer, const Note& l) { rt.spawn(answer(peer, l)); };
    mail.handle(std::move(handler));
    const net::View nothing{}, place = view(into);
    if (group.rank() == 1) {
      {
        Task<Result<Letter<NoteAnswer>>> question = mail.ask(0, NoteHead{1}, nothing, place);
        question.start();
        co_await rt.sleep_for(10 * kMilli);
      }
      const NoteHead l{2};
      const auto got = co_await mail.ask(0, l, nothing, place);
      EXPECT_TRUE(got.ok()) << got.status().to_string();
      EXPECT_EQ(got.ok() ? got->head.number : 0, 2);
      EXPECT_EQ(into[4999], 2.0F);
    }
    const Status left = co_await group.leave();
    EXPECT_TRUE(left.ok()) << left.to_string();
  });
}

}  // namespace
}  // namespace trireme::comm
