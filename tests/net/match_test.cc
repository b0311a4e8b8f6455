#include "trireme/net/match.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "tests/net/cluster.h"
#include "trireme/base/rng.h"

namespace trireme::net {
namespace {

TEST(Matcher, AgreesWithAMapOfQueuesUnderRandomUse) {
  Philox random(42);
  Matcher matcher;
  struct Queue {
    std::deque<std::uint64_t> recvs, messages;
  };
  std::map<std::pair<int, std::uint32_t>, Queue> model;
  std::uint64_t serial = 0;
  for (int i = 0; i < 200'000; ++i) {
    const int peer = static_cast<int>(random.next_below(5));
    const Identity id{.epoch = 1, .group = 0, .slot = 0, .step = 0, .part = random.next_below(300)};
    Queue& q = model[{peer, id.part}];
    if (random.next_below(2) == 0) {
      const auto got = matcher.take_arrived(peer, id);
      ASSERT_EQ(got.has_value(), !q.messages.empty());
      if (got) {
        ASSERT_EQ(got->fingerprint, q.messages.front());
        q.messages.pop_front();
      } else {
        matcher.add_recv(peer, id, {.fingerprint = ++serial, .view = {}, .done = nullptr, .cookie = serial});
        q.recvs.push_back(serial);
      }
    } else {
      const auto got = matcher.take_recv(peer, id);
      ASSERT_EQ(got.has_value(), !q.recvs.empty());
      if (got) {
        ASSERT_EQ(got->fingerprint, q.recvs.front());
        q.recvs.pop_front();
      } else {
        matcher.add_arrived(peer, id, {.fingerprint = ++serial, .payload = nullptr, .bytes = 1});
        q.messages.push_back(serial);
      }
    }
  }
  std::size_t num_recvs = 0;
  for (const auto& [key, q] : model) num_recvs += q.recvs.size();
  EXPECT_EQ(matcher.take_recvs_of(-1).size(), num_recvs);
  matcher.drop_arrived();
  EXPECT_EQ(matcher.num_keys(), 0U);
}

TEST(Matcher, ForgetsAGroupAndNothingElse) {
  Matcher matcher;
  const auto payload = std::make_shared<std::byte>();
  for (int peer = 0; peer < 3; ++peer)
    for (std::uint16_t group = 0; group < 4; ++group) {
      const Identity id{.epoch = 1, .group = group, .slot = 2, .step = 3, .part = 4};
      if (group % 2 == 0)
        matcher.add_recv(peer, id, {.fingerprint = group, .view = {}, .done = nullptr, .cookie = 9});
      else
        matcher.add_arrived(peer, id, {.fingerprint = group, .payload = payload, .bytes = 100});
    }
  int recvs = 0;
  std::uint64_t bytes = 0;
  for (const std::uint16_t group : {2, 3})
    matcher.forget_group(
        group, [&](int, const PendingRecv& r) { recvs += r.fingerprint == 2 ? 1 : 100; },
        [&](int peer, std::uint64_t held) { bytes += held << (8 * peer); });
  EXPECT_EQ(recvs, 3);
  EXPECT_EQ(bytes, 100U + (100U << 8) + (100U << 16));
  EXPECT_EQ(matcher.num_keys(), 6U);
  matcher.drop_arrived(1);
  EXPECT_EQ(matcher.num_keys(), 5U);
}

TEST(Identity, PacksWithoutLoss) {
  const Identity id{
      .epoch = 0xDEADBEEF, .group = 0xABCD, .slot = 0x1234, .step = 0xCAFEBABE, .part = 0x87654321};
  EXPECT_EQ(Identity::unpack(id.high(), id.low()), id);
  const Fingerprint fp{.kind = 200, .dtype = 100, .format = 50, .count = 0xFF'1234'5678};
  EXPECT_EQ(Fingerprint::unpack(fp.pack()), fp);
}

TEST(TransportTable, NamesAreUniqueAndAnUnknownOneListsThem) {
  std::map<std::string, int> names;
  for (const TransportRow& row : transport_table()) {
    EXPECT_EQ(++names[row.name], 1) << row.name;
    EXPECT_NE(std::string(row.doc), "");
  }
  const auto rt = runtime::make_real_runtime({});
  rt->run([](runtime::Runtime& loop) -> runtime::Task<void> {
    const ConnectOptions options;
    const auto got = co_await connect_transport(loop, "pigeon", options);
    EXPECT_EQ(got.status().code(), Code::kNotFound);
    EXPECT_NE(got.status().message().find("inproc, shm"), std::string::npos) << got.status().to_string();
  }(*rt));
}

TEST(RecordingTransport, NotesEverySendInOrderAndPassesItOn) {
  testing::run_virtual("inproc", 2, [](testing::Node& n) -> runtime::Task<void> {
    std::vector<SendRecord> log;
    n.transport = make_recording_transport(std::move(n.transport), &log);
    testing::Log done(n.rt);
    for (std::uint32_t i = 0; i < 3; ++i) {
      n.transport->send(1 - n.rank, testing::identity(1, i), {}, {nullptr, 10 * i}, &done, 2 * i);
      n.transport->recv(1 - n.rank, testing::identity(1, i), {}, {nullptr, 10 * i}, &done, 2 * i + 1);
    }
    co_await done.until(6);
    EXPECT_EQ(log.size(), 3U);
    for (std::uint32_t i = 0; i < log.size(); ++i)
      EXPECT_EQ(log[i], (SendRecord{1 - n.rank, testing::identity(1, i), 10 * i}));
    n.transport->send_control(1 - n.rank, as_bytes("x"));
    EXPECT_EQ(log.size(), 3U);
    co_await testing::barrier(n);
  });
}

}  // namespace
}  // namespace trireme::net
