// Streams, segments and doorbells inside a virtual machine.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trireme/runtime/network.h"
#include "trireme/runtime/sync.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::runtime {
namespace {

constexpr TimeNs kLatency = 500;

WorldSpec two_machines() {
  WorldSpec spec;
  spec.topology = cost::Topology::single_switch(2, {}, {});
  spec.topology.local = {.latency_ns = kLatency, .bytes_per_second = 1e9, .message_overhead_ns = 0};
  return spec;
}

using Notes = std::vector<std::string>;

Task<void> echo_server(Runtime& rt, Notes& notes) {
  auto listener = rt.network().listen_local("echo");
  auto stream = co_await (*listener)->accept(kSecond);
  Bytes buffer(5);
  for (;;) {
    const auto count = co_await (*stream)->read_some(buffer, kSecond);
    if (!count.ok() || *count == 0) {
      notes.emplace_back(count.ok() ? "end" : count.status().message());
      co_return;
    }
    notes.push_back(fmt::format("server {}", as_text(ByteView(buffer).first(*count))));
    (void)co_await (*stream)->write_all(ByteView(buffer).first(*count), kSecond);
  }
}

Task<void> echo_client(Runtime& rt, Notes& notes) {
  co_await rt.sleep_for(10);
  auto stream = co_await rt.network().connect_local("echo", kSecond);
  (void)co_await (*stream)->write_all(as_bytes("hello world"), kSecond);
  Bytes buffer(11);
  const Status status = co_await (*stream)->read_exact(buffer, kSecond);
  notes.push_back(fmt::format("client {} {}", as_text(buffer), status.to_string()));
}

TEST(VirtualStream, CarriesBytesBothWaysAndEndsWithItsPeer) {
  auto world = make_virtual_world(two_machines());
  Notes notes;
  Runtime& server = world->add_runtime(0, "server");
  Runtime& client = world->add_runtime(0, "client");
  world->start(server, echo_server(server, notes));
  world->start(client, echo_client(client, notes));
  EXPECT_TRUE(world->run(kForever).finished);
  EXPECT_EQ(notes, (Notes{"server hello", "server  worl", "server d", "client hello world ok", "end"}));
}

Task<void> connect_and_note(Runtime& rt, TimeNs deadline, Notes& notes) {
  const auto stream = co_await rt.network().connect_local("door", deadline);
  notes.push_back(fmt::format("{} at {}", code_name(stream.status().code()), rt.now()));
}

Task<void> listen_at(Runtime& rt, TimeNs when) {
  co_await rt.sleep_until(when);
  auto listener = rt.network().listen_local("door");
  EXPECT_EQ(rt.network().listen_local("door").status().code(), Code::kExists);
  auto stream = co_await (*listener)->accept(kSecond);
  EXPECT_TRUE(stream.ok());
  const auto nobody = co_await (*listener)->accept(rt.now() + 10);
  EXPECT_EQ(nobody.status().code(), Code::kDeadline);
}

TEST(VirtualStream, ConnectingWaitsForAListenerOfTheSameMachineUntilTheDeadline) {
  auto world = make_virtual_world(two_machines());
  Notes notes;
  Runtime& server = world->add_runtime(0, "server");
  Runtime& impatient = world->add_runtime(0, "impatient");
  Runtime& patient = world->add_runtime(0, "patient");
  Runtime& stranger = world->add_runtime(1, "stranger");
  world->start(server, listen_at(server, 1000));
  world->start(impatient, connect_and_note(impatient, 900, notes));
  world->start(patient, connect_and_note(patient, 5000, notes));
  world->start(stranger, connect_and_note(stranger, 6000, notes));
  EXPECT_TRUE(world->run(kForever).finished);
  const std::string late(code_name(Code::kDeadline));
  EXPECT_EQ(notes, (Notes{late + " at 900", fmt::format("ok at {}", 1000 + kLatency), late + " at 6000"}));
}

Task<void> accept_and_idle(Runtime& rt) {
  auto listener = rt.network().listen_local("door");
  auto stream = co_await (*listener)->accept(kSecond);
  (void)co_await (*stream)->write_all(as_bytes("last words"), kSecond);
  co_await rt.sleep_until(kForever);
}

Task<void> read_to_the_end(Runtime& rt, Notes& notes) {
  auto stream = co_await rt.network().connect_local("door", kSecond);
  Bytes buffer(4);
  for (;;) {
    const auto count = co_await (*stream)->read_some(buffer, kSecond);
    if (!count.ok() || *count == 0) break;
    notes.emplace_back(as_text(ByteView(buffer).first(*count)));
  }
  notes.push_back(fmt::format("ended at {}", rt.now()));
  const Status status = co_await (*stream)->write_all(as_bytes("x"), kSecond);
  notes.emplace_back(code_name(status.code()));
}

TEST(VirtualStream, AKilledPeerIsHeardAfterWhatItHadSent) {
  WorldSpec spec = two_machines();
  FaultSpec fault;
  fault.runtime = 0;
  fault.at = 10'000;
  spec.faults = {fault};
  auto world = make_virtual_world(spec);
  Notes notes;
  Runtime& server = world->add_runtime(0, "server");
  Runtime& client = world->add_runtime(0, "client");
  world->start(server, accept_and_idle(server));
  world->start(client, read_to_the_end(client, notes));
  EXPECT_TRUE(world->run(kForever).finished);
  EXPECT_EQ(notes, (Notes{"last", " wor", "ds", fmt::format("ended at {}", 10'000 + kLatency),
                          std::string(code_name(Code::kPeerLost))}));
}

// Counts what it finds in a shared counter; the writer rings after each change.
class CounterPoller final : public Poller {
 public:
  CounterPoller(Runtime& rt, std::byte* at, OneShot<bool>& enough) : rt_(rt), at_(at), enough_(enough) {}
  bool poll_on_loop() override {
    polls.push_back(rt_.now());
    const auto value = static_cast<int>(*at_);
    if (value == last_) return false;
    last_ = value;
    if (value == 3) enough_.set(true);
    return true;
  }
  std::vector<TimeNs> polls;

 private:
  Runtime& rt_;
  std::byte* at_;
  OneShot<bool>& enough_;
  int last_ = 0;
};

Task<void> shared_reader(Runtime& rt, std::vector<TimeNs>& polls) {
  auto listener = rt.network().listen_local("door");
  auto stream = co_await (*listener)->accept(kSecond);
  auto segment = rt.network().create_segment("ring", 10'000);
  auto bell = rt.network().make_doorbell();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*segment)->data()) % 4096, 0U);
  EXPECT_EQ((*segment)->size(), 10'000U);
  EXPECT_EQ((*segment)->data()[9'999], std::byte{0});
  OneShot<bool> enough(rt);
  CounterPoller poller(rt, (*segment)->data(), enough);
  rt.network().add_poller(&poller);
  (void)co_await (*stream)->send_segment(**segment, kSecond);
  (void)co_await (*stream)->send_doorbell(**bell, kSecond);
  EXPECT_TRUE(co_await enough.wait_until(kSecond));
  rt.network().remove_poller(&poller);
  polls = poller.polls;
}

Task<void> shared_writer(Runtime& rt) {
  auto stream = co_await rt.network().connect_local("door", kSecond);
  const auto none = co_await (*stream)->receive_segment(rt.now() + 1);
  EXPECT_EQ(none.status().code(), Code::kDeadline);
  auto segment = co_await (*stream)->receive_segment(kSecond);
  auto bell = co_await (*stream)->receive_doorbell(kSecond);
  co_await rt.sleep_until(100'000);
  (*segment)->data()[0] = std::byte{1};
  (*bell)->ring();
  (*segment)->data()[0] = std::byte{2};
  (*bell)->ring();  // one poll for both
  co_await rt.sleep_until(200'000);
  (*segment)->data()[0] = std::byte{3};
  (*bell)->ring();
  co_await rt.sleep_until(300'000);
}

TEST(VirtualStream, PassesSegmentsAndDoorbellsAndPollsOnceForRingsThatCoincide) {
  auto world = make_virtual_world(two_machines());
  std::vector<TimeNs> polls;
  Runtime& reader = world->add_runtime(0, "reader");
  Runtime& writer = world->add_runtime(0, "writer");
  world->start(reader, shared_reader(reader, polls));
  world->start(writer, shared_writer(writer));
  EXPECT_TRUE(world->run(kForever).finished);
  ASSERT_GE(polls.size(), 4U);
  // When added; then for each ring once with progress and once more to see that nothing is left.
  EXPECT_EQ(std::vector<TimeNs>(polls.begin() + 1, polls.begin() + 4),
            (std::vector<TimeNs>{100'000 + kLatency, 100'000 + kLatency, 200'000 + kLatency}));
}

TEST(VirtualStream, AWorldInTheMiddleOfEverythingGoesAwayCleanly) {
  auto world = make_virtual_world(two_machines());
  Notes notes;
  std::vector<TimeNs> polls;
  Runtime& server = world->add_runtime(0, "server");
  Runtime& client = world->add_runtime(0, "client");
  Runtime& reader = world->add_runtime(1, "reader");
  Runtime& writer = world->add_runtime(1, "writer");
  world->start(server, accept_and_idle(server));
  world->start(client, read_to_the_end(client, notes));
  world->start(reader, shared_reader(reader, polls));
  world->start(writer, shared_writer(writer));
  EXPECT_FALSE(world->run(150'000).finished);
  world.reset();
  EXPECT_EQ(notes, (Notes{"last", " wor", "ds"})) << "nothing ran during the teardown";
}

}  // namespace
}  // namespace trireme::runtime
