// Endpoints between real Runtimes of one process, each on its own thread.
#include <gtest/gtest.h>

#include <memory>

#include "trireme/runtime/network.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"

namespace trireme::runtime {
namespace {

std::unique_ptr<RealRuntime> on_fabric(const std::shared_ptr<Fabric>& fabric, TimeNs spin_ns = 0) {
  RealOptions options;
  options.compute_threads = 1;
  options.spin_ns = spin_ns;
  options.fabric = fabric;
  return make_real_runtime(options);
}

Packet numbered(std::uint64_t number) {
  Packet packet;
  packet.header[0] = number;
  return packet;
}

TEST(RealEndpoint, PacketsBetweenTwoLoopsArriveInOrderWithTheirPayload) {
  constexpr std::uint64_t kPackets = 2000;
  for (const TimeNs spin : {TimeNs{0}, 20 * kMicro}) {
    auto fabric = make_fabric();
    const auto payload = std::shared_ptr<std::byte>(new std::byte[4](), std::default_delete<std::byte[]>());
    auto sender = [&] {
      auto rt = on_fabric(fabric, spin);
      rt->run([](Runtime& r, auto bytes) -> Task<void> {
        auto box = r.network().open_endpoint(0);
        OneShot<bool> end(r);
        (*box)->set_handlers([&](int, Packet) { end.set(true); }, [](int) {});
        for (std::uint64_t i = 0; i < kPackets; ++i) {
          Packet packet = numbered(i);
          packet.payload = bytes;
          packet.bytes = 4;
          (*box)->send(1, std::move(packet));
        }
        co_await end.wait_until(kForever);  // the receiver's answer
      }(*rt, payload));
    };
    auto receiver = [&] {
      auto rt = on_fabric(fabric, spin);
      rt->run([](Runtime& r, const std::byte* expected) -> Task<void> {
        auto box = r.network().open_endpoint(1);
        OneShot<bool> end(r);
        std::uint64_t next = 0;
        (*box)->set_handlers(
            [&](int from, Packet packet) {
              EXPECT_EQ(from, 0);
              EXPECT_EQ(packet.header[0], next++);
              EXPECT_EQ(packet.payload.get(), expected) << "the payload is shared, not copied";
              if (next == kPackets) end.set(true);
            },
            [](int) {});
        co_await end.wait_until(kForever);
        (*box)->send(0, Packet{});
      }(*rt, payload.get()));
    };
    run_in_threads({sender, receiver});
  }
}

TEST(RealEndpoint, APacketToAnEndpointNotYetOpenWaitsAndTheClosingOfItsSenderComesAfterIt) {
  auto fabric = make_fabric();
  auto rt = on_fabric(fabric);
  std::vector<int> events;
  rt->run([](Runtime& r, std::vector<int>& log) -> Task<void> {
    {
      auto early = r.network().open_endpoint(7);
      (*early)->send(8, numbered(1));
      (*early)->send(8, numbered(2));
    }
    co_await r.sleep_for(0);
    auto late = r.network().open_endpoint(8);
    co_await r.sleep_for(0);
    EXPECT_TRUE(log.empty()) << "nothing is delivered before there are handlers";
    OneShot<bool> end(r);
    (*late)->set_handlers([&](int, Packet p) { log.push_back(static_cast<int>(p.header[0])); },
                          [&](int peer) {
                            log.push_back(-peer);
                            end.set(true);
                          });
    EXPECT_TRUE(log.empty()) << "never inside the call";
    co_await end.wait_until(kForever);
  }(*rt, events));
  EXPECT_EQ(events, (std::vector<int>{1, 2, -7}));
}

TEST(RealEndpoint, ClosingIsToldToEveryOtherOpenEndpointBehindThePacketsSentBefore) {
  auto fabric = make_fabric();
  auto body = [&](int id) {
    auto rt = on_fabric(fabric);
    rt->run([](Runtime& r, int me) -> Task<void> {
      auto box = r.network().open_endpoint(me);
      OneShot<bool> ready(r), closed(r);
      int packets = 0;
      (*box)->set_handlers(
          [&](int from, Packet) {
            ++packets;
            if (me == 0 && packets == 2) ready.set(true);
            EXPECT_TRUE(me == 0 || from == 0);
          },
          [&](int peer) {
            if (me == 0 || peer != 0) return;
            EXPECT_EQ(packets, 3);
            closed.set(true);
          });
      if (me == 0) {
        co_await ready.wait_until(kForever);
        for (int i = 0; i < 3; ++i) {
          (*box)->send(1, Packet{});
          (*box)->send(2, Packet{});
        }
      } else {
        (*box)->send(0, Packet{});
        co_await closed.wait_until(kForever);
      }
    }(*rt, id));
  };
  run_in_threads({[&] { body(0); }, [&] { body(1); }, [&] { body(2); }});
}

TEST(RealEndpoint, AnOpenIdIsRefusedAndAClosedOneMayBeOpenedAgain) {
  auto rt = on_fabric(make_fabric());
  rt->run([](Runtime& r) -> Task<void> {
    auto sender = r.network().open_endpoint(4);
    OneShot<bool> end(r);
    {
      auto first = r.network().open_endpoint(3);
      EXPECT_TRUE(first.ok());
      EXPECT_EQ(r.network().open_endpoint(3).status().code(), Code::kExists);
      (*sender)->send(3, numbered(1));
    }
    (*sender)->send(3, numbered(2));  // closed: dropped
    auto second = r.network().open_endpoint(3);
    EXPECT_TRUE(second.ok());
    (*second)->set_handlers(
        [&](int, Packet p) {
          EXPECT_EQ(p.header[0], 3U);
          end.set(true);
        },
        [](int) {});
    (*sender)->send(3, numbered(3));
    co_await end.wait_until(kForever);
  }(*rt));
}

TEST(RealEndpoint, AHandlerMayCloseItsOwnEndpoint) {
  auto rt = on_fabric(make_fabric());
  int packets = 0;
  rt->run([](Runtime& r, int& count) -> Task<void> {
    auto box = std::move(*r.network().open_endpoint(0));
    OneShot<bool> sent(r);
    box->set_handlers(
        [&](int, Packet) {
          ++count;
          box.reset();
        },
        [](int) {});
    box->send(0, Packet{});
    box->send(0, Packet{}, [&] { sent.set(true); });
    co_await sent.wait_until(kForever);
    co_await r.sleep_for(0);
  }(*rt, packets));
  EXPECT_EQ(packets, 1);
}

}  // namespace
}  // namespace trireme::runtime
