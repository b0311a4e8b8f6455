// Expendable ranks that die, fall silent or give up: what was under way with them ends, the others are told
// once and go on, and leave together. Times are virtual.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <set>

#include "tests/comm/ranks.h"
#include "tests/sanitizer.h"
#include "trireme/base/rng.h"
#include "trireme/comm/letter_kinds.h"
#include "trireme/comm/mailbox.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {
namespace {

using runtime::Runtime;
using runtime::Task;
using Kind = runtime::FaultSpec::Kind;

struct VectorHead {
  static constexpr std::uint16_t kKind = kLetterUserFirst;
  static constexpr auto kFields = head_fields();
  using Answer = EmptyHead;
};
using Vector = Letter<VectorHead>;

net::View view(std::vector<float>& v) {
  return {reinterpret_cast<std::byte*>(v.data()), v.size() * sizeof(float)};
}

runtime::FaultSpec fault(Kind kind, int rank, TimeNs at, TimeNs duration = kForever) {
  return {.kind = kind, .runtime = rank, .at = at, .site = {}, .index = 0, .duration = duration, .factor = 1};
}

std::vector<int> all_but(int world, const std::set<int>& without) {
  std::vector<int> ranks;
  for (int r = 0; r < world; ++r)
    if (!without.contains(r)) ranks.push_back(r);
  return ranks;
}

// What a rank lived through.
struct Life {
  int steps = 0;
  std::vector<std::pair<int, Status>> told;  // by on_lost
  std::vector<TimeNs> told_at;
  Status failed, left;
};

// Every rank but 0 puts a vector to rank 0 per step, which adds it and answers with the sum so far.
Task<void> train(Runtime& rt, Group& group, std::vector<int> expendable, int num_steps, Life& life,
                 std::size_t elems = 1000) {
  Mailbox& mail = group.mailbox();
  mail.on_lost([&](int peer, const Status& why) {
    life.told.emplace_back(peer, why);
    life.told_at.push_back(rt.now());
    EXPECT_FALSE(mail.is_alive(peer));
  });
  const Status set = group.set_expendable(expendable);
  EXPECT_TRUE(set.ok()) << set.to_string();
  std::vector<std::vector<float>> in(static_cast<std::size_t>(group.world()), std::vector<float>(elems));
  std::vector<float> sum(elems);
  Mailbox::Handler<VectorHead> handler;
  handler.place = [&](int peer, const Vector&) -> Result<net::View> {
    return view(in[static_cast<std::size_t>(peer)]);
  };
  const auto answer = [&](int peer, Vector asked) -> Task<void> {
    const EmptyHead head;
    const net::View payload = view(sum);
    const Status replied = co_await mail.reply(peer, asked.ticket, head, payload);
    EXPECT_TRUE(replied.ok() || replied.code() == Code::kPeerLost) << replied.to_string();
  };
  handler.arrived = [&](int peer, const Vector& l) {
    for (std::size_t i = 0; i < elems; ++i) sum[i] += in[static_cast<std::size_t>(peer)][i];
    rt.spawn(answer(peer, l));
  };
  if (group.rank() == 0) mail.handle(std::move(handler));
  std::vector<float> mine(elems, 1.0F), got(elems);
  for (int step = 0; step < num_steps && group.rank() != 0; ++step) {
    co_await rt.sleep_for(rt.is_virtual() ? 5 * kMilli : 100 * kMicro);
    const VectorHead l;
    const net::View payload = view(mine), into = view(got);
    const auto answered = co_await mail.ask(0, l, payload, into);
    if (!answered.ok()) {
      life.failed = answered.status();
      break;
    }
    ++life.steps;
  }
  life.left = co_await group.leave();
}

class Losses : public ::testing::TestWithParam<const char*> {
 protected:
  // Every rank's body gets its Life; ranks of `dead` may be in the middle of anything.
  template <typename Job>
  testing::VirtualResult play(int world, std::vector<runtime::FaultSpec> faults, Job job,
                              bool finishes = true) {
    lives_.assign(static_cast<std::size_t>(world), {});
    testing::RankOptions options;
    options.world = world;
    options.transport = GetParam();
    runtime::WorldSpec spec;
    spec.faults = std::move(faults);
    spec.latency_jitter = 0.5;
    auto result = testing::run_virtual(options, spec, [&](Runtime& rt, Group& group) {
      return job(rt, group, lives_[static_cast<std::size_t>(group.rank())]);
    });
    if (finishes) testing::expect_finished(result);
    return result;
  }
  void expect_told(int world, const std::set<int>& lost, const std::string& reason, TimeNs by) {
    for (const int r : all_but(world, lost)) {
      const Life& life = lives_[static_cast<std::size_t>(r)];
      EXPECT_TRUE(life.failed.ok()) << r << ": " << life.failed.to_string();
      EXPECT_TRUE(life.left.ok()) << r << ": " << life.left.to_string();
      std::set<int> told;
      for (const auto& [peer, why] : life.told) {
        EXPECT_TRUE(told.insert(peer).second) << "rank " << r << " was told twice of " << peer;
        EXPECT_EQ(why.code(), Code::kPeerLost);
        EXPECT_EQ(why.context().peer, peer);
        EXPECT_EQ(why.context().reason, reason);
      }
      EXPECT_EQ(told, lost) << "rank " << r;
      for (const TimeNs at : life.told_at) EXPECT_LE(at, by);
    }
  }
  std::vector<Life> lives_;
};

TEST_P(Losses, ADeadRankIsToldOnceAndTheOthersGoOn) {
  play(5, {fault(Kind::kKill, 2, 30 * kMilli)}, [](Runtime& rt, Group& group, Life& life) {
    return train(rt, group, {1, 2, 3, 4}, 200, life);
  });
  expect_told(5, {2}, "connection closed", 1 * kSecond);
  EXPECT_LT(lives_[2].steps, 200);
  for (const int r : {1, 3, 4}) EXPECT_EQ(lives_[static_cast<std::size_t>(r)].steps, 200);
}

TEST_P(Losses, ASilentRankIsLostAtTheDeadline) {
  // Without an end: the virtual world never finishes for it.
  play(
      4, {fault(Kind::kPause, 3, 30 * kMilli)},
      [](Runtime& rt, Group& group, Life& life) {
        return train(rt, group, {1, 2, 3}, 100, life);
      },
      false);
  expect_told(4, {3}, "silent for 2.00 s", 30 * kMilli + 2 * kSecond + 300 * kMilli);
  EXPECT_EQ(lives_[1].steps, 100);
}

TEST_P(Losses, ARankThatComesBackTooLateGetsTheVerdictThatNamesIt) {
  const auto job = [](Runtime& rt, Group& group, Life& life) -> Task<void> {
    const std::vector<int> expendable{1, 2};
    co_await train(rt, group, expendable, 1000, life);
  };
  play(3, {fault(Kind::kPause, 1, 300 * kMilli, 4 * kSecond)}, job);
  expect_told(3, {1}, "silent for 2.00 s", 3 * kSecond);
  EXPECT_EQ(lives_[1].left.code(), Code::kPeerLost);
  EXPECT_EQ(lives_[1].left.context().peer, 1);
  EXPECT_NE(lives_[1].left.message().find("this rank (1) was evicted"), std::string::npos);
  EXPECT_TRUE(lives_[1].told.empty());
}

TEST_P(Losses, AllButTheCoordinatorMayGo) {
  play(4,
       {fault(Kind::kKill, 1, 20 * kMilli), fault(Kind::kKill, 3, 21 * kMilli),
        fault(Kind::kKill, 2, 400 * kMilli)},
       [](Runtime& rt, Group& group, Life& life) {
         return train(rt, group, {1, 2, 3}, 200, life);
       });
  expect_told(4, {1, 2, 3}, "connection closed", 1 * kSecond);
}

TEST_P(Losses, ARankThatGivesUpEndsWithItsOwnErrorAndTheOthersHearWhy) {
  play(4, {}, [](Runtime& rt, Group& group, Life& life) -> Task<void> {
    const std::vector<int> expendable{1, 2, 3};
    if (group.rank() != 2) {
      co_await train(rt, group, expendable, 100, life);
      co_return;
    }
    EXPECT_TRUE(group.set_expendable(expendable).ok());
    co_await rt.sleep_for(10 * kMilli);
    group.fail("read of part 7", "disk full");
    life.left = co_await group.leave();
  });
  expect_told(4, {2}, "disk full", 1 * kSecond);
  EXPECT_EQ(lives_[2].left.code(), Code::kInternal);
  EXPECT_EQ(lives_[2].left.context().peer, 2);
  EXPECT_EQ(lives_[2].left.context().operation, "read of part 7");
}

TEST_P(Losses, OfARankThatIsNotExpendableEndEverything) {
  play(4, {fault(Kind::kKill, 3, 100 * kMilli)}, [](Runtime& rt, Group& group, Life& life) {
    return train(rt, group, {1, 2}, 500, life);
  });
  for (int r = 0; r < 3; ++r) {
    const Life& life = lives_[static_cast<std::size_t>(r)];
    EXPECT_TRUE(life.told.empty());
    EXPECT_EQ(life.left.code(), Code::kPeerLost) << life.left.to_string();
    EXPECT_EQ(life.left.context().peer, 3);
  }
}

TEST_P(Losses, WhileTheOthersLeaveAreNotWaitedFor) {
  play(4, {fault(Kind::kKill, 2, 800 * kMilli)}, [](Runtime& rt, Group& group, Life& life) {
    return train(rt, group, {1, 2, 3}, group.rank() == 2 ? 100'000 : 5, life);
  });
  expect_told(4, {2}, "connection closed", 2 * kSecond);
}

// 60 MB take 48 ms on a link of 10 Gbit/s; rank 1 sends them to rank 0, rank 0 to rank 2, and both die in
// the middle.
class LossesOnALink : public Losses {};
TEST_P(LossesOnALink, InTheMiddleOfAPayloadEndIt) {
  std::vector<float> place;
  bool arrived = false, place_free = false;
  play(4, {fault(Kind::kKill, 1, 20 * kMilli), fault(Kind::kKill, 2, 21 * kMilli)},
       [&](Runtime& rt, Group& group, Life& life) -> Task<void> {
         Mailbox& mail = group.mailbox();
         EXPECT_TRUE(group.set_expendable({1, 2, 3}).ok());
         Mailbox::Handler<VectorHead> handler;
         handler.place = [&, me = group.rank()](int, const Vector& l) -> Result<net::View> {
           if (me != 0) return net::View{nullptr, l.bytes};
           place.resize(l.bytes / sizeof(float));
           return view(place);
         };
         handler.arrived = [&](int, const Vector&) { arrived = true; };
         mail.handle(std::move(handler));
         mail.on_lost([&, me = group.rank()](int peer, const Status& why) {
           life.told.emplace_back(peer, why);
           if (me != 0 || peer != 1) return;
           place = {};  // whoever still wrote there would be found by the sanitizer
           place_free = true;
         });
         std::vector<float> values(15'000'000, 1.0F);
         const net::View payload = view(values), nothing{};
         const VectorHead l;
         if (group.rank() == 1) life.failed = co_await mail.send(0, l, payload);
         if (group.rank() == 0) {
           const Status sent = co_await mail.send(2, l, payload);
           EXPECT_EQ(sent.code(), Code::kPeerLost) << sent.to_string();
           EXPECT_EQ(sent.context().peer, 2);
           while (life.told.size() < 2) co_await rt.sleep_for(kMilli);
           const auto later = co_await mail.ask(1, l, nothing, nothing);
           EXPECT_EQ(later.status().code(), Code::kPeerLost);
           EXPECT_EQ(later.status().context().peer, 1);
         }
         if (group.rank() == 0 || group.rank() == 3) life.left = co_await group.leave();
         if (group.rank() == 2) co_await rt.sleep_for(10 * kSecond);
       });
  EXPECT_TRUE(lives_[0].left.ok()) << lives_[0].left.to_string();
  EXPECT_TRUE(lives_[3].left.ok()) << lives_[3].left.to_string();
  EXPECT_FALSE(arrived);
  EXPECT_TRUE(place_free);
}

// Rank 2 dies in an allreduce of the whole group. Groups without it never notice.
TEST_P(Losses, FailTheCollectivesOfTheirGroupsAlone) {
  std::vector<Status> whole(5), with_it(5);
  std::vector<int> beside(5), after(5);
  play(5, {fault(Kind::kKill, 2, 40 * kMilli)}, [&](Runtime& rt, Group& group, Life& life) -> Task<void> {
    const auto me = static_cast<std::size_t>(group.rank());
    EXPECT_TRUE(group.set_expendable({1, 2, 3, 4}).ok());
    const std::vector<int> live{0, 1, 3, 4}, pair{1, 2};
    const bool alive = group.rank() != 2;
    std::unique_ptr<Group> others, both;
    if (alive) others = group.subgroup(live, 7).value();
    if (group.rank() == 1 || !alive) both = group.subgroup(pair, 8).value();
    const auto repeat = [&](Group* g, const char* algorithm, Status& ended, int& count,
                            TimeNs end) -> Task<Status> {
      if (g == nullptr) co_return ok_status();
      while (rt.now() < end) {
        Call call;
        call.step = static_cast<std::uint32_t>(count);
        call.algorithm = algorithm;
        call.label = "sum";
        const Tensor data = testing::tensor_of(std::vector<float>(5000, 1.0F));
        ended = co_await g->allreduce(call, data);
        if (!ended.ok()) co_return ok_status();
        EXPECT_EQ(testing::values_of(data)[4999], static_cast<float>(g->world()));
        ++count;
        if (g->world() == 4) co_await rt.sleep_for(kMilli);
      }
      co_return ok_status();
    };
    int n = 0, m = 0;
    std::vector<Task<Status>> tasks;
    tasks.push_back(repeat(&group, "ring", whole[me], n, kForever));
    tasks.push_back(repeat(both.get(), "", with_it[me], m, kForever));
    const auto count_beside = [&]() -> Task<Status> {
      // As many calls on every rank: the clocks of ranks differ by what a call takes.
      for (; alive && beside[me] < 300; ++beside[me]) {
        Call call;
        call.step = static_cast<std::uint32_t>(beside[me]);
        call.slot = 3;
        const Tensor data = testing::tensor_of(std::vector<float>(5000, 1.0F));
        const Status s = co_await others->allreduce(call, data);
        EXPECT_TRUE(s.ok()) << s.to_string();
        if (!s.ok()) co_return s;
        EXPECT_EQ(testing::values_of(data)[0], 4.0F);
        co_await rt.sleep_for(kMilli);
      }
      co_return ok_status();
    };
    tasks.push_back(count_beside());
    const Status ended = co_await runtime::when_all(rt, std::move(tasks));
    EXPECT_TRUE(ended.ok()) << ended.to_string();
    EXPECT_GT(n, 0);
    // Groups made afterwards, of the living and with the dead.
    const std::vector<int> again{4, 3, 1, 0}, dead{1, 2, 3};
    auto next = group.subgroup(again, 9);
    Call call;
    const Tensor data = testing::tensor_of(std::vector<float>(10, 1.0F));
    const Status sum = co_await (*next)->allreduce(call, data);
    EXPECT_TRUE(sum.ok()) << sum.to_string();
    after[me] = static_cast<int>(testing::values_of(data)[0]);
    if (group.rank() == 3) {
      auto hopeless = group.subgroup(dead, 10);
      const Status refused = co_await (*hopeless)->barrier(call);
      EXPECT_EQ(refused.code(), Code::kPeerLost);
    }
    life.left = co_await group.leave();
  });
  for (const std::size_t r : {0U, 1U, 3U, 4U}) {
    EXPECT_EQ(whole[r].code(), Code::kPeerLost) << whole[r].to_string();
    EXPECT_EQ(whole[r].context().peer, 2);
    EXPECT_EQ(beside[r], 300);
    EXPECT_EQ(after[r], 4);
    EXPECT_TRUE(lives_[r].left.ok()) << lives_[r].left.to_string();
  }
  EXPECT_EQ(with_it[1].code(), Code::kPeerLost) << with_it[1].to_string();
}

// Through shared memory without messages, where there is such.
TEST_P(Losses, FailACollectiveWithoutAnAlgorithm) {
  std::vector<Status> whole(4);
  play(4, {fault(Kind::kKill, 3, 10 * kMilli)}, [&](Runtime&, Group& group, Life& life) -> Task<void> {
    Status& mine = whole[static_cast<std::size_t>(group.rank())];
    EXPECT_TRUE(group.set_expendable({3}).ok());
    for (std::uint32_t step = 0; mine.ok(); ++step) {
      Call call;
      call.step = step;
      const Tensor data = testing::tensor_of(std::vector<float>(100'000, 1.0F));
      mine = co_await group.allreduce(call, data);
    }
    life.left = co_await group.leave();
  });
  for (const std::size_t r : {0U, 1U, 2U}) {
    EXPECT_EQ(whole[r].code(), Code::kPeerLost) << whole[r].to_string();
    EXPECT_EQ(whole[r].context().peer, 3);
    EXPECT_TRUE(lives_[r].left.ok()) << lives_[r].left.to_string();
  }
}

// Any expendable ranks, at any time, in any way.
TEST_P(Losses, OfManySeedsNeverStopTheOthers) {
  for (std::uint64_t seed = 0; seed < num_seeds(60); ++seed) {
    Philox rng(seed, 11);
    const int world = 3 + static_cast<int>(rng.next_below(5));
    std::set<int> lost;
    std::vector<runtime::FaultSpec> faults;
    const auto num = 1 + rng.next_below(2);
    for (std::uint32_t i = 0; i < num; ++i) {
      const int rank = 1 + static_cast<int>(rng.next_below(static_cast<std::uint32_t>(world - 1)));
      if (!lost.insert(rank).second) continue;
      const TimeNs at = static_cast<TimeNs>(rng.next_below(400)) * kMilli;
      faults.push_back(fault(rng.next_below(2) == 0 ? Kind::kKill : Kind::kPause, rank, at, 5 * kSecond));
    }
    // When everybody else falls silent at once, rank 0 takes itself for the one that was cut off.
    if (static_cast<int>(lost.size()) == world - 1) continue;
    SCOPED_TRACE(fmt::format("seed {}, world {}, lost {}", seed, world, fmt::join(lost, " ")));
    std::vector<int> expendable = all_but(world, {0});
    play(world, faults, [&](Runtime& rt, Group& group, Life& life) {
      return train(rt, group, expendable, 60, life, 20'000);
    });
    for (const int r : all_but(world, lost)) {
      const Life& life = lives_[static_cast<std::size_t>(r)];
      EXPECT_TRUE(life.left.ok()) << "rank " << r << ": " << life.left.to_string();
      EXPECT_EQ(life.steps, r == 0 ? 0 : 60) << "rank " << r << ": " << life.failed.to_string();
      for (const auto& [peer, why] : life.told) EXPECT_TRUE(lost.contains(peer));
    }
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Tcp, LossesOnALink, ::testing::Values("tcp"),
                         [](const auto& param) { return std::string(param.param); });
INSTANTIATE_TEST_SUITE_P(Everywhere, Losses, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& param) { return std::string(param.param); });

TEST(Expendable, IsNeverTheCoordinatorNorARankThatIsNotThere) {
  testing::RankOptions options;
  options.world = 2;
  testing::expect_finished(testing::run_virtual(options, {}, [](Runtime&, Group& group) -> Task<void> {
    EXPECT_EQ(group.set_expendable({0}).code(), Code::kInvalid);
    EXPECT_EQ(group.set_expendable({2}).code(), Code::kInvalid);
    auto sub = group.subgroup({0, 1}, 3);
    EXPECT_EQ((*sub)->set_expendable({1}).code(), Code::kInvalid);
    EXPECT_TRUE((co_await group.leave()).ok());
  }));
}

// Real loops: nobody dies, one gives up while letters and collectives of the others are under way.
TEST(Expendable, RanksGiveUpOnThreadsToo) {
  std::vector<Life> lives(4);
  testing::RankOptions options;
  options.world = 4;
  testing::run_on_threads(options, [&](Runtime& rt, Group& group) -> Task<void> {
    Life& life = lives[static_cast<std::size_t>(group.rank())];
    const std::vector<int> expendable{1, 2, 3};
    if (group.rank() != 3) {
      co_await train(rt, group, expendable, 300, life);
      co_return;
    }
    Mailbox& mail = group.mailbox();
    EXPECT_TRUE(group.set_expendable({1, 2, 3}).ok());
    std::vector<float> values(1000), into(1000);
    const VectorHead l;
    const net::View payload = view(values), place = view(into);
    for (int i = 0; i < 3; ++i) {
      const auto answer = co_await mail.ask(0, l, payload, place);
      EXPECT_TRUE(answer.ok()) << answer.status().to_string();
    }
    group.fail("step 3", "out of memory");
    life.left = co_await group.leave();
  });
  EXPECT_EQ(lives[3].left.context().reason, "out of memory");
  for (const std::size_t r : {0U, 1U, 2U}) {
    EXPECT_TRUE(lives[r].left.ok()) << lives[r].left.to_string();
    ASSERT_EQ(lives[r].told.size(), 1U);
    EXPECT_EQ(lives[r].told[0].first, 3);
    EXPECT_EQ(lives[r].told[0].second.context().reason, "out of memory");
    EXPECT_EQ(lives[r].steps, r == 0 ? 0 : 300);
  }
}

}  // namespace
}  // namespace trireme::comm
