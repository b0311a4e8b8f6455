// A rank's half of the membership: heartbeats, reports, obeying the coordinator (coordinator.h), and deciding
// alone when the coordinator itself is gone. Then, with heartbeat 200 ms and deadline 2 s:
//   closed   after kCoordinatorGrace.
//   silent   half a heartbeat after the first heartbeat at or beyond `deadline` that it did not answer.
// Higher ranks wait a little longer (stagger()), so that the first one's verdict reaches them and all name
// the same operation. A report that the coordinator does not answer within kReportPatience
// (kMismatchPatience: it asks around first) becomes the reporter's own verdict. All of the immediate kinds
// stay below 1 s.
//
// A message that is left over when a rank leaves belongs to a call that it made in another way or not at all:
// it says so and gives the coordinator kMismatchPatience before it says goodbye.
#include "trireme/net/membership.h"

#include <algorithm>
#include <map>
#include <utility>

#include "trireme/net/call_teller.h"
#include "trireme/net/coordinator.h"
#include "trireme/net/stall_clock.h"
#include "trireme/runtime/sync.h"

namespace trireme::net {
namespace {

constexpr int kCoordinator = Coordinator::kRank;
constexpr TimeNs kCoordinatorGrace = 250 * kMilli;
constexpr TimeNs kReportPatience = 500 * kMilli;
constexpr TimeNs kMismatchPatience = 800 * kMilli;
ControlMessage accusation(ControlType type, const Verdict& v) {
  return {.type = type, .peer = v.culprit, .code = v.code, .operation = v.operation, .reason = v.reason};
}

class StarMembership final : public Membership, private CoordinatorPort {
 public:
  StarMembership(runtime::Runtime& rt, Transport& transport, MembershipOptions options)
      : rt_(rt),
        transport_(transport),
        options_(std::move(options)),
        self_(transport.rank()),
        world_(transport.world()),
        alive_(std::make_shared<bool>(true)),
        farewell_(rt),
        stall_(rt.now()),
        teller_(transport, [this](ControlMessage m) { tell_call_on_loop(std::move(m)); }) {}

  ~StarMembership() override {
    *alive_ = false;
    for (const runtime::TimerId timer : {tick_timer_, patience_timer_, coordinator_timer_})
      if (timer != 0) rt_.cancel_timer(timer);
    if (!started_) return;
    transport_.set_control_handler(nullptr);
    transport_.set_closed_handler(nullptr);
  }

  void start(std::function<void(Status)> on_failure) override {
    TR_CHECK(!started_, "a membership starts once");
    started_ = true;
    on_failure_ = std::move(on_failure);
    started_at_ = last_tick_ = next_beat_ = rt_.now();
    stall_.note();  // from now on
    if (world_ == 1) return;
    if (self_ == kCoordinator)
      coordinator_ =
          std::make_unique<Coordinator>(rt_, world_, options_, static_cast<CoordinatorPort&>(*this));
    transport_.set_control_handler([this](int peer, ByteView bytes) { control_on_loop(peer, bytes); });
    transport_.set_closed_handler([this](int peer) { closed_on_loop(peer); });
    // So that its silence counts from now, whatever becomes of it next; ranks say the same by a heartbeat.
    if (coordinator_ != nullptr) broadcast({.type = ControlType::kAnswer});
    tick_on_loop();
  }

  void watch_calls(CallLog* log) override { teller_.watch(log); }
  void note_call(const CallId& id) override { teller_.note(id); }
  void compare_call(const CallId& id) override { teller_.compare(id); }
  void note_progress() override { stall_.note(); }
  void set_waiting(WaitingFor waiting) override {
    if (waiting.peer == waiting_.peer && waiting.operation == waiting_.operation &&
        waiting.patient == waiting_.patient)
      return;
    waiting_ = std::move(waiting);
    stall_.note();
  }

  void report(int culprit, Code code, std::string operation, std::string reason) override {
    TR_CHECK(code != Code::kOk && culprit >= 0 && culprit < world_, "report of rank {}", culprit);
    if (is_over() || losses_.contains(culprit)) return;
    if (operation.empty()) operation = waiting_.operation;
    Verdict v{culprit, code, std::move(operation), std::move(reason)};
    if (world_ == 1) {
      decide(std::move(v));
      return;
    }
    if (coordinator_ != nullptr) {
      coordinator_->consider(self_, std::move(v));
      return;
    }
    send(kCoordinator, accusation(ControlType::kReport, v));
    const TimeNs patience = culprit == kCoordinator   ? kCoordinatorGrace + stagger()
                            : code == Code::kMismatch ? kMismatchPatience
                                                      : kReportPatience;
    pending_.push_back(std::move(v));
    const TimeNs end = rt_.now() + patience;
    if (patience_timer_ != 0 && end >= patience_end_) return;
    if (patience_timer_ != 0) rt_.cancel_timer(patience_timer_);
    patience_end_ = end;
    patience_timer_ = rt_.call_at(end, [this] { patience_ended_on_loop(); });
  }

  void set_expendable(const std::vector<int>& ranks,
                      std::function<void(int, const Status&)> on_lost) override {
    on_lost_ = std::move(on_lost);
    if (coordinator_ != nullptr) coordinator_->set_expendable(ranks);
    for (const auto& [peer, why] : losses_) tell_lost(peer, why);
  }

  runtime::Task<Status> leave(TimeNs deadline) override {
    leaving_ = true;
    set_waiting({-1, "leave", waiting_.patient});
    if (world_ > 1 && started_ && !is_over()) {
      if (teller_.leave()) co_await farewell_.wait_until(rt_.now() + kMismatchPatience);
    }
    if (world_ > 1 && started_ && !is_over()) {
      if (coordinator_ != nullptr)
        coordinator_->left(self_);
      else
        send(kCoordinator, {.type = ControlType::kGoodbye});
      // Who was away until the deadline has the answer waiting in its queue.
      if (!co_await farewell_.wait_until(deadline))
        co_await farewell_.wait_until(rt_.now() + options_.heartbeat);
    }
    if (!verdict_.ok()) {
      tell_failure_on_loop();  // the caller may destroy this before the loop comes to it
      co_return verdict_;
    }
    const bool answered = done_ || world_ == 1 || !started_;
    if (!answered && coordinator_ != nullptr) broadcast({.type = ControlType::kFarewell});
    done_ = true;
    if (tick_timer_ != 0) rt_.cancel_timer(std::exchange(tick_timer_, 0));
    if (answered) co_return ok_status();
    co_return error(
        Code::kDeadline,
        "[net] rank {} left before the others: {} until the deadline; let every rank leave at the end", self_,
        coordinator_ != nullptr ? coordinator_->missing_text() : "no farewell from the coordinator");
  }

  const Status& verdict() const override { return verdict_; }

 private:
  bool is_over() const { return !verdict_.ok() || done_; }
  TimeNs stagger() const { return std::min(self_ - 1, 8) * (options_.heartbeat / 25); }

  void send(int peer, ControlMessage message) override {
    message.epoch = options_.epoch;
    transport_.send_control(peer, encode(message));
  }
  void broadcast(ControlMessage message) override {
    message.epoch = options_.epoch;
    const Bytes bytes = encode(message);
    for (int peer = 0; peer < world_; ++peer)
      if (peer != self_) transport_.send_control(peer, bytes);
  }

  RankView own_view() override {
    RankView own;
    own.heard_at = rt_.now();
    own.busy = rt_.activity().busy();
    own.stalled_ns = stall_.look(own.heard_at, own.busy, transport_.motion());
    own.waits_for = waiting_.peer;
    own.operation = waiting_.operation;
    own.patient = waiting_.patient;
    own.left = leaving_;
    return own;
  }

  void tick_on_loop() {
    tick_timer_ = 0;
    if (is_over()) return;
    const TimeNs now = rt_.now();
    // This rank itself was away (paused, or its machine was): whoever seemed silent gets a new chance to be
    // heard, and a verdict that is already waiting in the queue comes first.
    if (now - std::exchange(last_tick_, now) > 3 * options_.heartbeat) {
      if (coordinator_ != nullptr) coordinator_->was_away();
      if (coordinator_heard_at_ >= 0) coordinator_heard_at_ = now;
    }
    if (coordinator_ != nullptr)
      coordinator_->look();
    else
      send_heartbeat();
    if (now >= next_beat_) {
      next_beat_ = now + options_.heartbeat;
      teller_.beat();
      if (coordinator_ == nullptr) watch_coordinator_on_loop();
    }
    if (is_over()) return;
    const TimeNs pause = coordinator_ != nullptr ? options_.heartbeat / 4 : options_.heartbeat;
    tick_timer_ = rt_.call_at(now + pause, [this] { tick_on_loop(); });
  }

  void send_heartbeat() {
    const RankView own = own_view();
    send(kCoordinator, {.type = ControlType::kHeartbeat,
                        .busy = own.busy,
                        .patient = own.patient,
                        .progress = stall_.progress(),
                        .stalled_ns = own.stalled_ns,
                        .peer = own.waits_for,
                        .operation = own.operation});
  }

  // The heartbeat that was just sent gets the chance to be answered before the coordinator counts as silent.
  void watch_coordinator_on_loop() {
    const auto silent = [this](TimeNs now) {
      const bool never = coordinator_heard_at_ < 0;
      return now - (never ? started_at_ : coordinator_heard_at_) >=
             (never ? options_.arrival : options_.deadline);
    };
    const TimeNs look_at = rt_.now() + options_.heartbeat / 2 + stagger();
    if (!silent(look_at) || coordinator_timer_ != 0) return;
    coordinator_timer_ = rt_.call_at(look_at, [this, silent] {
      coordinator_timer_ = 0;
      if (is_over() || !silent(rt_.now())) return;
      const bool never = coordinator_heard_at_ < 0;
      decide({kCoordinator, Code::kPeerLost, waiting_.operation,
              fmt::format("the coordinator was {} {}", never ? "never heard of for" : "silent for",
                          format_duration(never ? options_.arrival : options_.deadline))});
    });
  }

  void compare_own(const CallId& id, int line) override { teller_.compare(id, line); }
  void tell_call_on_loop(ControlMessage m) {
    if (world_ == 1 || is_over()) return;
    if (coordinator_ != nullptr)
      coordinator_->call_told(self_, m);
    else
      send(kCoordinator, std::move(m));
  }

  void control_on_loop(int peer, ByteView bytes) {
    auto message = decode_control(bytes);
    if (!message || message->epoch != options_.epoch || message->peer >= world_) {
      rt_.log(fmt::format("[net] refused a control message of rank {}: {} bytes", peer, bytes.size()));
      return;
    }
    if (done_) return;
    if (!verdict_.ok()) {
      // Whoever still asks has not heard.
      if (coordinator_ != nullptr && message->type != ControlType::kVerdict)
        send(peer, accusation(ControlType::kVerdict, decided_));
      return;
    }
    if (coordinator_ != nullptr)
      coordinator_->heard(peer, std::move(*message));
    else
      obey_on_loop(peer, std::move(*message));
  }

  void obey_on_loop(int peer, ControlMessage m) {
    // Only the loss of the coordinator is told by others.
    if (peer != kCoordinator && (m.type != ControlType::kVerdict || m.peer != kCoordinator)) return;
    if (peer == kCoordinator) coordinator_heard_at_ = rt_.now();
    switch (m.type) {
      case ControlType::kVerdict:
        settle_on_loop({m.peer, m.code, std::move(m.operation), std::move(m.reason)});
        break;
      case ControlType::kFarewell:
        all_left();
        break;
      case ControlType::kLost:
        lost({m.peer, m.code, std::move(m.operation), std::move(m.reason)});
        break;
      case ControlType::kPardon:
        std::erase_if(pending_, [&](const Verdict& v) { return v.culprit == m.peer; });
        break;
      case ControlType::kProbe:
        send_heartbeat();
        break;
      case ControlType::kCompare:
        teller_.compare(CallId::unpack(m.call, m.turn), m.peer);
        break;
      default:
        break;
    }
  }

  void closed_on_loop(int peer) {
    if (is_over() || losses_.contains(peer)) return;
    // At the end of a job everybody closes; only the coordinator keeps count of the goodbyes.
    if (leaving_ && coordinator_ == nullptr && peer != kCoordinator) return;
    report(peer, Code::kPeerLost, waiting_.operation, "connection closed");
  }

  // The coordinator did not answer a report. Everybody who saw the same failures names the same rank: the
  // lowest.
  void patience_ended_on_loop() {
    patience_timer_ = 0;
    if (pending_.empty()) return;
    decide(*std::min_element(pending_.begin(), pending_.end(),
                             [](const Verdict& a, const Verdict& b) { return a.culprit < b.culprit; }));
  }

  // This rank's own decision. The loss of the coordinator is told by whoever notices it first; other ranks
  // would else see this one's connection close.
  void decide(Verdict v) override {
    if (is_over()) return;
    if (v.operation.empty()) v.operation = waiting_.operation;
    settle_on_loop(std::move(v));
    if (world_ > 1 && (coordinator_ != nullptr || decided_.culprit == kCoordinator))
      broadcast(accusation(ControlType::kVerdict, decided_));
  }

  // The first verdict is the only one.
  void settle_on_loop(Verdict v) {
    if (is_over()) return;
    decided_ = std::move(v);
    verdict_ = to_status(decided_, self_, options_.names);
    farewell_.set(false);
    rt_.post([this, alive = alive_] {
      if (*alive) tell_failure_on_loop();
    });
  }

  void tell_failure_on_loop() {
    if (auto fn = std::exchange(on_failure_, nullptr)) fn(verdict_);
  }

  // From the coordinator. A rank that hears it of itself gets the verdict instead.
  void lost(Verdict v) override {
    if (is_over() || v.culprit == self_ || v.culprit == kCoordinator || losses_.contains(v.culprit)) return;
    std::erase_if(pending_, [&](const Verdict& p) { return p.culprit == v.culprit; });
    const Status why = to_notice(v, self_, options_.names);
    losses_.emplace(v.culprit, why);
    if (on_lost_) tell_lost(v.culprit, why);
  }
  void tell_lost(int peer, const Status& why) {
    rt_.post([this, alive = alive_, peer, why] {
      if (*alive && verdict_.ok()) on_lost_(peer, why);  // also of the last one that others waited for
    });
  }

  void all_left() override {
    done_ = true;
    farewell_.set(true);
  }

  runtime::Runtime& rt_;
  Transport& transport_;
  const MembershipOptions options_;
  const int self_, world_;
  std::shared_ptr<bool> alive_;
  std::function<void(Status)> on_failure_;
  runtime::OneShot<bool> farewell_;
  StallClock stall_;
  bool started_ = false, leaving_ = false, done_ = false;
  Status verdict_;
  Verdict decided_;
  std::map<int, Status> losses_;  // of expendable ranks
  std::function<void(int, const Status&)> on_lost_;
  std::vector<Verdict> pending_;              // reports that wait for the coordinator's word
  std::unique_ptr<Coordinator> coordinator_;  // on rank 0

  CallTeller teller_;
  WaitingFor waiting_;
  TimeNs started_at_ = 0, last_tick_ = 0, next_beat_ = 0, coordinator_heard_at_ = -1;
  TimeNs patience_end_ = 0;
  runtime::TimerId tick_timer_ = 0, patience_timer_ = 0, coordinator_timer_ = 0;
};

}  // namespace

std::unique_ptr<Membership> make_membership(runtime::Runtime& rt, Transport& transport,
                                            MembershipOptions options) {
  return std::make_unique<StarMembership>(rt, transport, std::move(options));
}

}  // namespace trireme::net
