// Times, with heartbeat 200 ms and deadline 2 s:
//   closed      reported at once; the coordinator waits kClosedGrace for a goodbye or verdict that is under
//   way, then
//               decides. Everybody knows within kClosedGrace + 2 link latencies.
//   mismatch    the coordinator collects reports for kMismatchWindow and asks everybody where it is, then
//   decides. silent      at `deadline` after the last heartbeat, to within one heartbeat. stuck stalled_ns is
//   measured by each rank to within a heartbeat; known `deadline` later. coordinator closed: each rank
//   decides itself after kCoordinatorGrace; silent: each rank decides itself at `deadline`.
// A report that the coordinator does not answer within kReportPatience becomes the reporter's own verdict.
// All of the immediate kinds stay below 1 s.
#include "trireme/net/membership.h"

#include <algorithm>
#include <utility>

#include "trireme/net/control_message.h"
#include "trireme/net/judge.h"
#include "trireme/runtime/sync.h"

namespace trireme::net {
namespace {

constexpr int kCoordinator = 0;
constexpr TimeNs kClosedGrace = 50 * kMilli;
constexpr TimeNs kMismatchWindow = 100 * kMilli;
constexpr TimeNs kCoordinatorGrace = 250 * kMilli;
constexpr TimeNs kReportPatience = 500 * kMilli;

std::string verdict_message(const Verdict& v, int self) {
  const std::string where = v.operation.empty() ? "no operation" : v.operation;
  const std::string who =
      v.culprit == self ? fmt::format("this rank ({})", self) : fmt::format("rank {}", v.culprit);
  switch (v.code) {
    case Code::kPeerLost:
      return fmt::format("[comm] {} was {} in {}: {}; restart the job, it resumes from the last checkpoint",
                         who, v.culprit == self ? "evicted" : "lost", where, v.reason);
    case Code::kMismatch:
      return fmt::format(
          "[comm] {} made another call than the others in {}: {}; every rank must make the same calls "
          "in the same step",
          who, where, v.reason);
    case Code::kDeadline:
      return fmt::format("[comm] {} is stuck in {}: {}; every rank must make the same calls in the same step",
                         who, where, v.reason);
    default:
      return fmt::format("[comm] {} failed in {}: {}; see its log, then restart the job", who, where,
                         v.reason);
  }
}

class StarMembership final : public Membership {
 public:
  StarMembership(runtime::Runtime& rt, Transport& transport, MembershipOptions options)
      : rt_(rt),
        transport_(transport),
        options_(options),
        self_(transport.rank()),
        world_(transport.world()),
        alive_(std::make_shared<bool>(true)),
        farewell_(rt) {}

  ~StarMembership() override {
    *alive_ = false;
    for (const runtime::TimerId timer : {tick_timer_, closed_timer_, mismatch_timer_, patience_timer_})
      if (timer != 0) rt_.cancel_timer(timer);
    if (!started_) return;
    transport_.set_control_handler(nullptr);
    transport_.set_closed_handler(nullptr);
  }

  void start(std::function<void(Status)> on_failure) override {
    TR_CHECK(!started_, "a membership starts once");
    started_ = true;
    on_failure_ = std::move(on_failure);
    started_at_ = last_tick_ = changed_at_ = rt_.now();
    if (world_ == 1) return;
    if (is_coordinator()) ranks_.resize(static_cast<std::size_t>(world_));
    transport_.set_control_handler([this](int peer, ByteView bytes) { control_on_loop(peer, bytes); });
    transport_.set_closed_handler([this](int peer) { closed_on_loop(peer); });
    tick_on_loop();
  }

  void note_progress() override { ++progress_; }
  void set_waiting(WaitingFor waiting) override {
    if (waiting.peer == waiting_.peer && waiting.operation == waiting_.operation) return;
    waiting_ = std::move(waiting);
    ++progress_;
  }

  void report(int culprit, Code code, std::string operation, std::string reason) override {
    TR_CHECK(code != Code::kOk && culprit >= 0 && culprit < world_, "report of rank {}", culprit);
    if (!verdict_.ok() || done_) return;
    if (operation.empty()) operation = waiting_.operation;
    Verdict v{culprit, code, std::move(operation), std::move(reason)};
    if (is_coordinator() || world_ == 1) {
      consider_on_loop(self_, std::move(v));
      return;
    }
    send(kCoordinator, accusation(ControlType::kReport, v));
    const TimeNs patience = culprit == kCoordinator ? kCoordinatorGrace : kReportPatience;
    pending_.push_back(std::move(v));
    if (patience_timer_ == 0)
      patience_timer_ = rt_.call_at(rt_.now() + patience, [this] { patience_ended_on_loop(); });
  }

  runtime::Task<Status> leave(TimeNs deadline) override {
    leaving_ = true;
    set_waiting({});
    if (world_ > 1 && started_ && !done_ && verdict_.ok()) {
      if (is_coordinator()) {
        ranks_[kCoordinator].left = true;
        farewell_when_all_left_on_loop();
      } else {
        send(kCoordinator, {.type = ControlType::kGoodbye});
      }
      co_await farewell_.wait_until(deadline);
    }
    if (!verdict_.ok()) {
      tell_failure_on_loop();  // the caller may destroy this before the loop comes to it
      co_return verdict_;
    }
    const bool answered = done_ || world_ == 1 || !started_;
    if (!answered && is_coordinator()) broadcast({.type = ControlType::kFarewell});
    stop_on_loop();
    if (answered) co_return ok_status();
    co_return error(
        Code::kDeadline,
        "[net] rank {} left before the others: {} until the deadline; let every rank leave at the end", self_,
        is_coordinator() ? missing_text() : "no farewell from the coordinator");
  }

  const Status& verdict() const override { return verdict_; }

 private:
  bool is_coordinator() const { return self_ == kCoordinator; }
  RankView& view(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void send(int peer, ControlMessage message) {
    message.epoch = options_.epoch;
    transport_.send_control(peer, encode(message));
  }
  void broadcast(ControlMessage message) {
    message.epoch = options_.epoch;
    const Bytes bytes = encode(message);
    for (int peer = 0; peer < world_; ++peer)
      if (peer != self_) transport_.send_control(peer, bytes);
  }
  static ControlMessage accusation(ControlType type, const Verdict& v) {
    return {.type = type, .peer = v.culprit, .code = v.code, .operation = v.operation, .reason = v.reason};
  }
  std::string missing_text() const {
    std::string text;
    for (int rank = 0; rank < world_; ++rank)
      if (!ranks_[static_cast<std::size_t>(rank)].left)
        text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
    return fmt::format("no goodbye from ranks {}", text);
  }

  // How long this rank neither computed nor progressed, known to within one heartbeat.
  TimeNs stalled_ns(bool busy) {
    if (busy || progress_ != seen_progress_) changed_at_ = rt_.now();
    seen_progress_ = progress_;
    return rt_.now() - changed_at_;
  }

  void tick_on_loop() {
    tick_timer_ = 0;
    if (!verdict_.ok() || done_) return;
    const TimeNs now = rt_.now();
    // This rank itself was away (paused, or its machine was): whoever seemed silent gets a new chance to be
    // heard, and a verdict that is already waiting in the queue comes first.
    if (now - std::exchange(last_tick_, now) > 3 * options_.heartbeat) {
      for (RankView& r : ranks_)
        if (r.heard_at >= 0) r.heard_at = now;
      if (coordinator_heard_at_ >= 0) coordinator_heard_at_ = now;
    }
    const bool busy = rt_.activity().busy();
    const TimeNs stalled = stalled_ns(busy);
    if (is_coordinator()) {
      RankView& own = view(self_);
      own.heard_at = now;
      own.busy = busy;
      own.stalled_ns = stalled;
      own.waits_for = waiting_.peer;
      own.operation = waiting_.operation;
      judge_all_on_loop();
    } else {
      send_heartbeat(busy, stalled);
      check_coordinator_on_loop();
    }
    if (verdict_.ok()) tick_timer_ = rt_.call_at(now + options_.heartbeat, [this] { tick_on_loop(); });
  }

  void send_heartbeat(bool busy, TimeNs stalled) {
    send(kCoordinator, {.type = ControlType::kHeartbeat,
                        .busy = busy,
                        .progress = progress_,
                        .stalled_ns = stalled,
                        .peer = waiting_.peer,
                        .operation = waiting_.operation});
  }

  void check_coordinator_on_loop() {
    const bool never = coordinator_heard_at_ < 0;
    const TimeNs silent = rt_.now() - (never ? started_at_ : coordinator_heard_at_);
    if (silent < (never ? options_.arrival : options_.deadline)) return;
    decide_on_loop({kCoordinator, Code::kPeerLost, waiting_.operation,
                    fmt::format("the coordinator was silent for {}", format_duration(silent))});
    // Nobody else can tell the others, and they will see this rank's connection close.
    broadcast(accusation(ControlType::kVerdict, decided_));
  }

  void judge_all_on_loop() {
    if (auto v = judge_silence(ranks_, self_, rt_.now(), started_at_, options_.deadline, options_.arrival)) {
      decide_on_loop(std::move(*v));
      return;
    }
    if (auto v = judge_all_stuck(ranks_, options_.deadline)) decide_on_loop(std::move(*v));
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
      if (is_coordinator() && message->type != ControlType::kVerdict)
        send(peer, accusation(ControlType::kVerdict, decided_));
      return;
    }
    if (is_coordinator())
      coordinate_on_loop(peer, std::move(*message));
    else
      obey_on_loop(peer, std::move(*message));
  }

  void coordinate_on_loop(int peer, ControlMessage m) {
    RankView& r = view(peer);
    r.heard_at = rt_.now();
    switch (m.type) {
      case ControlType::kHeartbeat: {
        const bool crossed = r.stalled_ns < options_.deadline && m.stalled_ns >= options_.deadline;
        r.busy = m.busy;
        r.stalled_ns = m.stalled_ns;
        r.waits_for = m.peer;
        r.operation = std::move(m.operation);
        send(peer, {.type = ControlType::kAnswer});
        if (crossed)
          if (auto v = judge_stuck(ranks_, peer, options_.deadline)) decide_on_loop(std::move(*v));
        break;
      }
      case ControlType::kReport:
        consider_on_loop(peer, {m.peer, m.code, std::move(m.operation), std::move(m.reason)});
        break;
      case ControlType::kVerdict:  // the others gave the coordinator up while it was away
        decide_on_loop({m.peer, m.code, std::move(m.operation), std::move(m.reason)});
        break;
      case ControlType::kGoodbye:
        r.left = true;
        farewell_when_all_left_on_loop();
        break;
      default:
        break;
    }
  }

  void obey_on_loop(int peer, ControlMessage m) {
    if (peer != kCoordinator) {
      // Only the loss of the coordinator is told by others.
      if (m.type == ControlType::kVerdict && m.peer == kCoordinator)
        decide_on_loop({m.peer, m.code, std::move(m.operation), std::move(m.reason)});
      return;
    }
    coordinator_heard_at_ = rt_.now();
    switch (m.type) {
      case ControlType::kVerdict:
        decide_on_loop({m.peer, m.code, std::move(m.operation), std::move(m.reason)});
        break;
      case ControlType::kFarewell:
        done_ = true;
        farewell_.set(true);
        break;
      case ControlType::kPardon:
        std::erase_if(pending_, [&](const Verdict& v) { return v.culprit == m.peer; });
        break;
      case ControlType::kProbe: {
        const bool busy = rt_.activity().busy();
        send_heartbeat(busy, stalled_ns(busy));
        break;
      }
      default:
        break;
    }
  }

  void closed_on_loop(int peer) {
    if (!verdict_.ok() || done_) return;
    // At the end of a job everybody closes; only the coordinator keeps count of the goodbyes.
    if (leaving_ && !is_coordinator() && peer != kCoordinator) return;
    report(peer, Code::kPeerLost, waiting_.operation, "connection closed");
  }

  // The coordinator weighs what `reporter` (or itself) saw.
  void consider_on_loop(int reporter, Verdict v) {
    if (v.code == Code::kMismatch && v.culprit != reporter) {
      if (disagreements_.empty()) {
        if (world_ > 1) broadcast({.type = ControlType::kProbe});
        // Asked again half-way: who was between two calls at first has stopped at the next one by then.
        mismatch_timer_ = rt_.call_at(rt_.now() + kMismatchWindow / 2, [this] {
          if (world_ > 1) broadcast({.type = ControlType::kProbe});
          mismatch_timer_ =
              rt_.call_at(rt_.now() + kMismatchWindow / 2, [this] { judge_mismatch_on_loop(); });
        });
      }
      disagreements_.push_back({reporter, v.culprit, std::move(v.operation), std::move(v.reason)});
      return;
    }
    if (v.code == Code::kPeerLost && v.culprit != reporter && world_ > 1) {
      if (view(v.culprit).left) {
        if (reporter != self_) send(reporter, {.type = ControlType::kPardon, .peer = v.culprit});
        return;
      }
      pending_.push_back(std::move(v));
      if (closed_timer_ == 0)
        closed_timer_ = rt_.call_at(rt_.now() + kClosedGrace, [this] {
          closed_timer_ = 0;
          decide_on_closed_on_loop();
        });
      return;
    }
    decide_on_loop(std::move(v));
  }

  void judge_mismatch_on_loop() {
    mismatch_timer_ = 0;
    if (is_coordinator()) {
      view(self_).operation = waiting_.operation;
      view(self_).waits_for = waiting_.peer;
    }
    decide_on_loop(judge_mismatch(ranks_, disagreements_));
  }

  void decide_on_closed_on_loop() {
    for (Verdict& v : std::exchange(pending_, {})) {
      if (view(v.culprit).left) continue;
      if (v.operation.empty()) v.operation = operation_around(ranks_, v.culprit);
      decide_on_loop(std::move(v));
      return;
    }
  }

  // The coordinator did not answer a report. Everybody who saw the same failures names the same rank: the
  // lowest.
  void patience_ended_on_loop() {
    patience_timer_ = 0;
    if (pending_.empty()) return;
    decide_on_loop(
        *std::min_element(pending_.begin(), pending_.end(),
                          [](const Verdict& a, const Verdict& b) { return a.culprit < b.culprit; }));
  }

  // The first decision is the only one.
  void decide_on_loop(Verdict v) {
    if (!verdict_.ok() || done_) return;
    if (v.operation.empty()) v.operation = waiting_.operation;
    decided_ = std::move(v);
    verdict_ = Status(decided_.code, verdict_message(decided_, self_),
                      ErrorContext{.rank = self_,
                                   .peer = decided_.culprit,
                                   .operation = decided_.operation,
                                   .tag = {},
                                   .reason = decided_.reason});
    if (world_ > 1) {
      if (is_coordinator())
        broadcast(accusation(ControlType::kVerdict, decided_));
      else if (decided_.culprit == kCoordinator)
        send(kCoordinator, accusation(ControlType::kVerdict, decided_));
    }
    farewell_.set(false);
    rt_.post([this, alive = alive_] {
      if (*alive) tell_failure_on_loop();
    });
  }

  void tell_failure_on_loop() {
    if (auto fn = std::exchange(on_failure_, nullptr)) fn(verdict_);
  }

  void farewell_when_all_left_on_loop() {
    if (!std::all_of(ranks_.begin(), ranks_.end(), [](const RankView& r) { return r.left; })) return;
    broadcast({.type = ControlType::kFarewell});
    done_ = true;
    farewell_.set(true);
  }

  void stop_on_loop() {
    done_ = true;
    if (tick_timer_ != 0) rt_.cancel_timer(std::exchange(tick_timer_, 0));
  }

  runtime::Runtime& rt_;
  Transport& transport_;
  const MembershipOptions options_;
  const int self_, world_;
  std::shared_ptr<bool> alive_;
  std::function<void(Status)> on_failure_;
  runtime::OneShot<bool> farewell_;
  bool started_ = false, leaving_ = false, done_ = false;
  Status verdict_;
  Verdict decided_;
  std::vector<Verdict> pending_;  // reports that wait for the coordinator's word or for the grace to end

  WaitingFor waiting_;
  std::uint64_t progress_ = 0, seen_progress_ = 0;
  TimeNs started_at_ = 0, last_tick_ = 0, changed_at_ = 0, coordinator_heard_at_ = -1;
  runtime::TimerId tick_timer_ = 0, closed_timer_ = 0, mismatch_timer_ = 0, patience_timer_ = 0;

  // Coordinator only.
  std::vector<RankView> ranks_;
  std::vector<Disagreement> disagreements_;
};

}  // namespace

std::unique_ptr<Membership> make_membership(runtime::Runtime& rt, Transport& transport,
                                            MembershipOptions options) {
  return std::make_unique<StarMembership>(rt, transport, options);
}

}  // namespace trireme::net
