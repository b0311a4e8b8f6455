// How ranks find each other over TCP: who comes, who does not, and who is not wanted.
#include "trireme/net/rendezvous.h"

#include <gtest/gtest.h>

#include "trireme/base/rng.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::net {
namespace {

using runtime::HostPort;
using runtime::Runtime;
using runtime::Task;

struct World {
  explicit World(int num_ranks, bool one_machine = false, std::vector<runtime::FaultSpec> faults = {}) {
    runtime::WorldSpec spec;
    spec.topology = cost::Topology::single_switch(one_machine ? 1 : num_ranks, {}, {});
    spec.faults = std::move(faults);
    world = make_virtual_world(spec);
    for (int r = 0; r < num_ranks; ++r)
      ranks.push_back(&world->add_runtime(one_machine ? 0 : r, fmt::format("rank {}", r)));
  }
  Runtime& rank(int r) { return *ranks[static_cast<std::size_t>(r)]; }
  void run() {
    const auto report = world->run(100 * kSecond);
    EXPECT_TRUE(report.finished) << report.stuck;
  }
  std::unique_ptr<runtime::VirtualWorld> world;
  std::vector<Runtime*> ranks;
};

ConnectOptions options_of(int rank, int world) {
  ConnectOptions options;
  options.rank = rank;
  options.world = world;
  options.coordinator = "machine-0:29500";
  options.insecure = true;
  options.job = "test";
  options.deadline = 3 * kSecond;
  return options;
}

Task<void> expect_met(Runtime& rt, ConnectOptions options, std::vector<Met>& out) {
  auto met = co_await meet(rt, options);
  EXPECT_TRUE(met.ok()) << met.status().to_string();
  if (met.ok()) out.push_back(std::move(met).value());
}

Task<void> expect_failure(Runtime& rt, ConnectOptions options, Code code, std::string text, TimeNs within) {
  auto met = co_await meet(rt, options);
  EXPECT_FALSE(met.ok());
  EXPECT_EQ(met.status().code(), code) << met.status().to_string();
  EXPECT_NE(met.status().message().find(text), std::string::npos) << met.status().to_string();
  EXPECT_LE(rt.now(), within) << met.status().to_string();
}

Task<void> later(Runtime& rt, TimeNs when, Task<void> task) {
  co_await rt.sleep_until(when);
  co_await task;
}

void expect_same_tables(const std::vector<Met>& met, int world) {
  ASSERT_EQ(met.size(), static_cast<std::size_t>(world));
  for (const Met& m : met) {
    EXPECT_EQ(m.addresses, met[0].addresses);
    ASSERT_EQ(m.addresses.size(), static_cast<std::size_t>(world));
    for (const HostPort& address : m.addresses) EXPECT_NE(address.port, 0);
  }
}

TEST(Rendezvous, EveryRankGetsTheSameTableWhateverTheOrderOfArrival) {
  constexpr int kWorld = 9;
  for (const bool coordinator_last : {false, true}) {
    World w(kWorld);
    std::vector<Met> met;
    for (int r = 0; r < kWorld; ++r) {
      const TimeNs when = (coordinator_last ? kWorld - r : r) * 200 * kMilli;
      w.world->start(w.rank(r), later(w.rank(r), when, expect_met(w.rank(r), options_of(r, kWorld), met)));
    }
    w.run();
    expect_same_tables(met, kWorld);
    EXPECT_EQ(met[0].addresses[5].host, "machine-5");
  }
}

// The directory exists, with a file of an earlier run in it when `old` is given.
Task<void> make_shared_directory(Runtime& rt, std::string old) {
  EXPECT_TRUE((co_await rt.files().make_dirs("/shared")).ok());
  if (!old.empty()) {
    EXPECT_TRUE((co_await rt.files().write("/shared/coordinator", as_bytes(old))).ok());
  }
}

TEST(Rendezvous, AFileOnASharedDiskTellsTheAddressAndGoesAway) {
  World w(3, true);
  std::vector<Met> met;
  w.world->start(w.rank(0), make_shared_directory(w.rank(0), ""));
  w.run();
  for (int r = 0; r < 3; ++r) {
    ConnectOptions options = options_of(r, 3);
    options.coordinator = "";
    options.rendezvous = "/shared";
    w.world->start(w.rank(r), later(w.rank(r), (3 - r) * 100 * kMilli, expect_met(w.rank(r), options, met)));
  }
  w.run();
  expect_same_tables(met, 3);
  const auto look = [](Runtime& rt, bool& there) -> Task<void> {
    there = *co_await rt.files().exists("/shared/coordinator");
  };
  bool there = true;
  w.world->start(w.rank(0), look(w.rank(0), there));
  w.run();
  EXPECT_FALSE(there);
}

TEST(Rendezvous, AFileOfAnEarlierRunIsReadAgainUntilRankZeroHasWrittenItsOwn) {
  World w(2, true);
  std::vector<Met> met;
  w.world->start(w.rank(1), make_shared_directory(w.rank(1), "127.0.0.1:1"));
  w.run();
  for (int r = 0; r < 2; ++r) {
    ConnectOptions options = options_of(r, 2);
    options.coordinator = "";
    options.rendezvous = "/shared";
    w.world->start(w.rank(r), later(w.rank(r), (2 - r) * kSecond, expect_met(w.rank(r), options, met)));
  }
  w.run();
  expect_same_tables(met, 2);
}

TEST(Rendezvous, RanksThatDoNotComeAreNamedOnEveryRank) {
  World w(5);
  const TimeNs within = 6 * kSecond;
  for (const int r : {0, 1, 3})
    w.world->start(w.rank(r), expect_failure(w.rank(r), options_of(r, 5), Code::kDeadline,
                                             "ranks 2, 4 did not come", within));
  w.run();
}

TEST(Rendezvous, WithoutACoordinatorTheErrorSaysSo) {
  World w(2);
  w.world->start(w.rank(1), expect_failure(w.rank(1), options_of(1, 2), Code::kDeadline, "is rank 0 running",
                                           4 * kSecond));
  w.run();
  World v(2, true);
  ConnectOptions by_file = options_of(1, 2);
  by_file.coordinator = "";
  by_file.rendezvous = "/shared";
  v.world->start(v.rank(1),
                 expect_failure(v.rank(1), by_file, Code::kDeadline, "is rank 0 running", 4 * kSecond));
  ConnectOptions nowhere = options_of(0, 2);
  nowhere.coordinator = "";
  v.world->start(v.rank(0),
                 expect_failure(v.rank(0), nowhere, Code::kInvalid, "needs a place to meet", kSecond));
  v.run();
}

// A wrong rank is told why at once; the right ranks meet all the same.
void expect_refused(ConnectOptions wrong, Code code, const std::string& text) {
  World w(4);
  std::vector<Met> met;
  for (const int r : {0, 1}) w.world->start(w.rank(r), expect_met(w.rank(r), options_of(r, 3), met));
  w.world->start(w.rank(3),
                 later(w.rank(3), 100 * kMilli, expect_failure(w.rank(3), wrong, code, text, kSecond)));
  w.world->start(w.rank(2), later(w.rank(2), kSecond, expect_met(w.rank(2), options_of(2, 3), met)));
  w.run();
  expect_same_tables(met, 3);
}

TEST(Rendezvous, RanksOfAnotherJobWorldOrEpochAndSecondComersAreRefusedWithTheReason) {
  expect_refused(options_of(2, 4), Code::kMismatch, "got world 4, expected 3");
  ConnectOptions other_epoch = options_of(2, 3);
  other_epoch.epoch = 7;
  expect_refused(other_epoch, Code::kMismatch, "got epoch 7, expected 1");
  ConnectOptions other_job = options_of(2, 3);
  other_job.job = "another";
  expect_refused(other_job, Code::kMismatch, "job name");
  expect_refused(options_of(1, 3), Code::kExists, "rank 1 is here already");
}

Task<void> stranger(Runtime& rt, Bytes bytes) {
  const HostPort to{"machine-0", 29500};
  auto stream = co_await rt.network().connect_tcp(to, kSecond);
  EXPECT_TRUE(stream.ok());
  (void)co_await (*stream)->write_all(bytes, rt.now() + kSecond);
  co_await rt.sleep_for(500 * kMilli);
}

TEST(Rendezvous, StrangersDoNotDisturb) {
  Philox random(5);
  for (int seed = 0; seed < 60; ++seed) {
    World w(4);
    std::vector<Met> met;
    Bytes bytes;
    if (seed > 0 && seed < 20) {
      bytes.resize(1 + random.next_below(3000));
      for (std::byte& b : bytes) b = static_cast<std::byte>(random.next_u32());
    } else if (seed >= 20) {  // a right frame with wrong content
      JoinMessage join{job_rank_of(options_of(2, 3)), {"machine-3", 9}};
      Bytes payload = encode(join);
      payload[random.next_below(static_cast<std::uint32_t>(payload.size()))] ^= std::byte{0x40};
      bytes = make_frame(static_cast<FrameType>(3 + seed % 4), payload);
    }
    w.world->start(w.rank(0), expect_met(w.rank(0), options_of(0, 3), met));
    w.world->start(w.rank(3), later(w.rank(3), 10 * kMilli, stranger(w.rank(3), bytes)));
    for (const int r : {1, 2})
      w.world->start(w.rank(r), later(w.rank(r), 800 * kMilli, expect_met(w.rank(r), options_of(r, 3), met)));
    w.run();
    expect_same_tables(met, 3);
  }
}

TEST(Rendezvous, ARankThatDiesBeforeAllAreHereMayComeAgain) {
  runtime::FaultSpec kill;
  kill.runtime = 1;
  kill.at = 200 * kMilli;
  World w(4, false, {kill});
  std::vector<Met> met;
  w.world->start(w.rank(0), expect_met(w.rank(0), options_of(0, 3), met));
  w.world->start(w.rank(1), expect_met(w.rank(1), options_of(1, 3), met));
  w.world->start(w.rank(3), later(w.rank(3), 400 * kMilli, expect_met(w.rank(3), options_of(1, 3), met)));
  w.world->start(w.rank(2), later(w.rank(2), 900 * kMilli, expect_met(w.rank(2), options_of(2, 3), met)));
  w.run();
  expect_same_tables(met, 3);
  EXPECT_EQ(met[0].addresses[1].host, "machine-3");
}

TEST(Rendezvous, ACoordinatorBeyondThisHostNeedsInsecure) {
  World w(2);
  for (int r = 0; r < 2; ++r) {
    ConnectOptions options = options_of(r, 2);
    options.insecure = false;
    w.world->start(w.rank(r), expect_failure(w.rank(r), options, Code::kUnavailable, "--insecure", kSecond));
  }
  w.run();
}

TEST(SetupMessage, EveryCutAndFlippedMessageIsRefusedOrAnotherRightOne) {
  const JoinMessage join{job_rank_of(options_of(2, 4)), {"machine-2", 4711}};
  const TableMessage table{{"a", 1}, {"127.0.0.1", 65535}, {"::1", 80}};
  const auto parsed_table = parse_table(encode(table));
  ASSERT_TRUE(parsed_table.ok());
  EXPECT_EQ(*parsed_table, table);
  const auto parsed_join = parse_join(encode(join));
  ASSERT_TRUE(parsed_join.ok());
  EXPECT_EQ(parsed_join->address, join.address);
  EXPECT_EQ(parsed_join->who.rank, 2U);
  for (const Bytes& right : {encode(join), encode(table), encode(HelloMessage{join.who, 1})}) {
    for (std::size_t size = 0; size < right.size(); ++size) {
      const ByteView cut = ByteView(right).first(size);
      EXPECT_FALSE(parse_join(cut).ok() || parse_table(cut).ok());
      EXPECT_FALSE(size + 4 < right.size() && parse_hello(cut).ok() && parse_hello(right).ok());
    }
  }
  EXPECT_EQ(parse_refusal({}).code(), Code::kCorrupt);
  const Status told = parse_refusal(encode_refusal(error(Code::kExists, "[net] rank 2 is here already")));
  EXPECT_EQ(told.code(), Code::kExists);
  EXPECT_EQ(told.message(), "[net] rank 2 is here already");
}

}  // namespace
}  // namespace trireme::net
