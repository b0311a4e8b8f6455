// Bad days: a worker that is lost, a server that is lost, ranks that do not agree on what there is.
#include <gtest/gtest.h>

#include "tests/server/cluster.h"
#include "tests/server/updates.h"

namespace trireme::server {
namespace {

using runtime::FaultSpec;
using runtime::Task;
using testing::Cluster;
using testing::key_of;
using testing::tensor_of;
using testing::Vector;
using testing::Worker;

constexpr std::int64_t kElems = 50'000;  // a push to one server takes 80 us
constexpr std::int64_t kClocks = 12;

FaultSpec killed(int rank, TimeNs at) {
  FaultSpec fault;
  fault.kind = FaultSpec::Kind::kKill;
  fault.runtime = rank;
  fault.at = at;
  return fault;
}

Cluster three_workers(const char* consistency) {
  Cluster c;
  c.workers = 3;
  c.servers = 2;
  c.keys = {key_of("w", kElems)};
  c.consistency = consistency;
  c.clocks.gather = 2;
  c.clocks.staleness = 1;
  c.clocks.fraction = 0.6;
  c.work = [](Worker w) -> Task<Status> {
    if (w.worker == 0) TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, tensor_of(Vector(kElems, 0))));
    const Tensor values = tensor_of(Vector(kElems));
    const Tensor ones = tensor_of(Vector(kElems, 1));
    for (PushNote note; note.clock < kClocks; ++note.clock) {
      const Result<Version> read = co_await w.client.pull(0, values, note.clock);
      if (!read.ok()) co_return read.status();
      note.clock = std::max(note.clock, std::min(read->oldest_clock, kClocks));  // late: jumps
      if (note.clock >= kClocks) break;
      TR_CO_RETURN_IF_ERROR(co_await w.client.push(0, ones, note));
      TR_CO_RETURN_IF_ERROR(co_await w.client.tick(note.clock));
    }
    co_return co_await w.client.finish();
  };
  return c;
}

TEST(Loss, TheOthersGoOnWithoutAWorkerThatIsLostWhereverItWas) {
  for (const char* consistency : {"bsp", "ssp", "async", "soft", "late"})
    for (TimeNs at = 150 * kMicro; at < 2500 * kMicro; at += 190 * kMicro) {
      Cluster c = three_workers(consistency);
      c.expendable = true;
      c.spec.faults = {killed(1, at)};
      run(c);
      EXPECT_TRUE(c.worker_status[0].ok()) << c.worker_status[0].to_string();
      EXPECT_TRUE(c.worker_status[2].ok()) << c.worker_status[2].to_string();
      EXPECT_FALSE(c.worker_status[1].ok());
      for (const Status& s : c.server_status) EXPECT_TRUE(s.ok()) << s.to_string();
      // What is applied is applied whole, and all of the workers that are left is (late may drop some).
      for (const auto& [name, values] : c.state) EXPECT_EQ(values, Vector(values.size(), values[0])) << name;
      if (std::string_view(consistency) == "async") {
        EXPECT_GE(c.state.begin()->second[0], 2.0F * kClocks);
        EXPECT_LE(c.state.begin()->second[0], 3.0F * kClocks);
      }
      if (std::string_view(consistency) == "bsp") {
        EXPECT_EQ(c.state.begin()->second[0], kClocks);
      }
      ASSERT_FALSE(::testing::Test::HasFailure()) << consistency << ", killed at " << at;
    }
}

TEST(Loss, ALostServerIsTheVerdictThatNamesIt) {
  for (const bool expendable : {false, true}) {
    Cluster c = three_workers("async");
    c.expendable = expendable;
    c.spec.faults = {killed(4, kMilli)};
    run(c);
    for (const Status& s : c.worker_status) {
      EXPECT_EQ(s.code(), Code::kPeerLost) << s.to_string();
      EXPECT_EQ(s.context().peer, 4) << s.to_string();
    }
    EXPECT_EQ(c.server_status[0].context().peer, 4) << c.server_status[0].to_string();
  }
}

TEST(Loss, AWorkerThatTakesTenSecondsIsWaitedForAndNobodyIsBlamed) {
  for (const bool expendable : {false, true}) {
    Cluster c = three_workers("bsp");
    c.expendable = expendable;
    const auto work = c.work;
    c.work = [&](Worker w) -> Task<Status> {
      if (w.worker == 2) co_await w.rt.sleep_for(10 * kSecond);
      co_return co_await work(w);
    };
    run(c);
    for (const Status& s : c.worker_status) EXPECT_TRUE(s.ok()) << s.to_string();
    EXPECT_GT(c.report.end_time, 10 * kSecond);
    EXPECT_EQ(c.state.begin()->second[0], kClocks);
  }
}

TEST(Loss, ClientsOfAnotherLayoutAreTheVerdict) {
  Cluster c;
  c.workers = 2;
  c.keys = {key_of("w", 64)};
  c.work = [](Worker w) -> Task<Status> {
    const std::vector<Key> other{key_of("w", 32)};
    const std::vector<int> ranks{2};
    const auto client = make_client(w.rt, w.group.mailbox(), ranks, *make_layout(other, 1), other);
    if (w.worker == 1) co_return co_await client->init(0, tensor_of(Vector(32)));
    const Tensor into = tensor_of(Vector(64));
    const Result<Version> read = co_await w.client.pull(0, into, 0);
    co_return read.status();
  };
  run(c);
  EXPECT_FALSE(c.worker_status[0].ok());
  EXPECT_NE(c.worker_status[0].message().find("got 128 bytes, expected 256"), std::string::npos)
      << c.worker_status[0].message();
}

}  // namespace
}  // namespace trireme::server
