#include "trireme/net/call_teller.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme::net {
namespace {

// A transport that only has messages waiting.
class Waiting final : public Transport {
 public:
  struct Message {
    Identity id;
    Fingerprint fingerprint;
  };
  std::vector<Message> messages;

  void visit_waiting(const WaitingVisitor& visit) const override {
    for (const Message& m : messages) visit(1, m.id, m.fingerprint);
  }
  int rank() const override { return 0; }
  int world() const override { return 2; }
  std::string_view name() const override { return "waiting"; }
  Capabilities capabilities() const override { return {}; }
  void send(int, const Identity&, const Fingerprint&, View, Completion*, std::uint64_t) override {}
  void recv(int, const Identity&, const Fingerprint&, View, Completion*, std::uint64_t) override {}
  void poison(Status, Callback) override {}
  void send_control(int, ByteView) override {}
  void set_control_handler(std::function<void(int, ByteView)>) override {}
  void set_closed_handler(std::function<void(int)>) override {}
  std::uint64_t bytes_sent() const override { return 0; }
};

class Log final : public CallLog {
 public:
  std::vector<CallRecord> records;
  std::vector<CallId> lasting;

  bool is_member(std::uint16_t group) const override { return group == 0; }
  int line_of(std::uint16_t /*group*/) const override { return line; }
  int line = -1;
  std::optional<CallRecord> find_call(const CallId& id) const override {
    for (const CallRecord& r : records)
      if (r.id == id) return r;
    return std::nullopt;
  }
  std::optional<CallMark> latest_call(std::uint16_t group, std::uint16_t slot,
                                      std::uint32_t step) const override {
    for (auto r = records.rbegin(); r != records.rend(); ++r)
      if (r->id.group == group && r->id.slot == slot && r->id.step == step)
        return CallMark{r->id, r->fingerprint};
    return std::nullopt;
  }
  std::vector<CallId> lasting_calls(std::size_t /*max*/) override { return std::exchange(lasting, {}); }
};

constexpr Fingerprint kMine{.kind = 1, .count = 5}, kTheirs{.kind = 2, .count = 5};

Identity identity(std::uint16_t slot, std::uint16_t group = 0) {
  return {.epoch = 1, .group = group, .slot = slot, .step = 3, .part = 0};
}
CallId call(std::uint16_t slot, std::uint32_t turn = 1) { return {0, slot, 3, turn}; }
CallRecord record(std::uint16_t slot) { return {call(slot), kMine.pack(), 77, 4, "op", "words"}; }

class CallTellerTest : public ::testing::Test {
 protected:
  std::vector<CallId> told_ids() const {
    std::vector<CallId> ids;
    for (const ControlMessage& m : told) ids.push_back(CallId::unpack(m.call, m.turn));
    return ids;
  }
  CallTellerTest() { teller.watch(&log); }
  Waiting transport;
  Log log;
  std::vector<ControlMessage> told;
  CallTeller teller{transport, [this](ControlMessage m) { told.push_back(std::move(m)); }};
};

TEST_F(CallTellerTest, TellsHowACallWasMade) {
  log.records = {record(2)};
  teller.compare(call(2));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].type, ControlType::kCall);
  EXPECT_EQ(told[0].digest, 77U);
  EXPECT_EQ(told[0].progress, 4U);
  EXPECT_EQ(told[0].operation, "op");
  EXPECT_EQ(told[0].reason, "words");
}

TEST_F(CallTellerTest, ACallThatWasNotMadeYetIsToldAgainWhenItIs) {
  teller.compare(call(2));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].digest, kNotYet);
  log.records = {record(1), record(2)};
  teller.note(call(1));
  EXPECT_EQ(told.size(), 1U);
  teller.note(call(2));
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[1].digest, 77U);
  teller.note(call(2));
  EXPECT_EQ(told.size(), 2U);
}

// Groups without a rank in common may have one number, and make calls of their own.
TEST_F(CallTellerTest, ACallOfAnotherLineIsToldOnlyIfItIsMadeHereToo) {
  log.line = 4;
  teller.compare(call(1), 5);
  teller.compare(call(2), 5);
  EXPECT_TRUE(told.empty()) << "it need not be made here";
  log.records = {record(2)};
  teller.note(call(2));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].digest, 77U);
  EXPECT_EQ(told[0].peer, 4);
  EXPECT_FALSE(teller.leave());
  EXPECT_EQ(told.size(), 1U) << "the other one is not missed";
  CallTeller late(transport, [this](ControlMessage m) { told.push_back(std::move(m)); });
  late.watch(&log);
  late.compare(call(3), 5);
  late.compare(call(3), 4);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[1].digest, kNotYet) << "a rank of the own line made it";
  late.leave();
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[2].digest, kNotMade);
}

TEST_F(CallTellerTest, NothingIsToldOfOtherGroups) {
  teller.compare({9, 2, 3, 1});
  transport.messages = {{identity(2, 9), kTheirs}};
  teller.beat();
  EXPECT_FALSE(teller.leave());
  EXPECT_TRUE(told.empty());
}

TEST_F(CallTellerTest, LastingCallsAndContradictedOnesAreToldWithAHeartbeat) {
  log.records = {record(1), record(2), record(3)};
  log.lasting = {call(1)};
  transport.messages = {
      {identity(2), kTheirs}, {identity(2), kTheirs}, {identity(3), kMine}, {identity(4), kTheirs}};
  teller.beat();
  EXPECT_EQ(told_ids(), (std::vector<CallId>{call(1), call(2)}));
}

TEST_F(CallTellerTest, WhatIsLeftOverAtTheEndWasMadeOtherwiseOrNever) {
  log.records = {record(2)};
  transport.messages = {{identity(2), kTheirs}, {identity(4), kTheirs}};
  EXPECT_TRUE(teller.leave());
  EXPECT_EQ(told_ids(), (std::vector<CallId>{call(2), call(4)}));
  EXPECT_EQ(told[0].digest, 77U);
  EXPECT_EQ(told[1].digest, kNotMade);
}

TEST_F(CallTellerTest, ALeftoverThatLooksTheSameMayBeOfTheNextTurn) {
  log.records = {record(2)};
  transport.messages = {{identity(2), kMine}};
  EXPECT_TRUE(teller.leave());
  EXPECT_EQ(told_ids(), (std::vector<CallId>{call(2), call(2, 2)}));
}

TEST_F(CallTellerTest, WhatOthersAskedForAndNeverCameIsToldAtTheEnd) {
  teller.compare(call(6));
  EXPECT_FALSE(teller.leave());
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].digest, kNotYet);
  EXPECT_EQ(told[1].digest, kNotMade);
}

}  // namespace
}  // namespace trireme::net
