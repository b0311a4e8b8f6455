#include "trireme/net/coordinator.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace trireme::net {
namespace {

constexpr TimeNs kClosedGrace = 50 * kMilli;
constexpr TimeNs kMismatchWindow = 100 * kMilli;
constexpr TimeNs kTieWindow = 300 * kMilli;
// Calls compared at once: those that last longer than a heartbeat are few.
constexpr std::size_t kMaxComparisons = 64;
// Everybody is asked about a call and answers. Where many calls of many ranks last, as on slow links, this is
// about so many messages in a heartbeat, and the others are compared in later ones.
constexpr int kAskedInABeat = 4096;
constexpr std::size_t kMaxDone = 1024;

}  // namespace

Coordinator::Coordinator(runtime::Runtime& rt, int world, const MembershipOptions& options,
                         CoordinatorPort& port)
    : rt_(rt),
      options_(options),
      port_(port),
      started_at_(rt.now()),
      ranks_(static_cast<std::size_t>(world)) {}

Coordinator::~Coordinator() {
  for (const runtime::TimerId timer : {closed_timer_, mismatch_timer_})
    if (timer != 0) rt_.cancel_timer(timer);
}

void Coordinator::heard(int peer, ControlMessage m) {
  RankView& r = view(peer);
  if (r.lost) {  // it was silent for too long and is back
    const Verdict& v = losses_.at(peer);
    port_.send(peer, {.type = ControlType::kVerdict,
                      .peer = peer,
                      .code = v.code,
                      .operation = v.operation,
                      .reason = v.reason});
    return;
  }
  r.heard_at = rt_.now();
  switch (m.type) {
    case ControlType::kHeartbeat: {
      const bool crossed = r.stalled_ns < options_.deadline && m.stalled_ns >= options_.deadline;
      r.busy = m.busy;
      r.stalled_ns = m.stalled_ns;
      r.waits_for = m.peer;
      r.operation = std::move(m.operation);
      r.patient = m.patient;
      port_.send(peer, {.type = ControlType::kAnswer});
      if (!crossed) break;
      if (auto v = judge_stuck(ranks_, peer, options_.deadline, callers(), options_.names))
        port_.decide(std::move(*v));
      break;
    }
    case ControlType::kReport:
      consider(peer, {m.peer, m.code, std::move(m.operation), std::move(m.reason)});
      break;
    case ControlType::kVerdict:  // the others gave the coordinator up while it was away
      port_.decide({m.peer, m.code, std::move(m.operation), std::move(m.reason)});
      break;
    case ControlType::kGoodbye:
      left(peer);
      break;
    case ControlType::kCall:
      call_told(peer, m);
      break;
    default:
      break;
  }
}

void Coordinator::look() {
  look_at_own();
  compare_more();
  while (auto v = judge_silence(ranks_, kRank, rt_.now(), started_at_, options_.deadline, options_.arrival,
                                options_.heartbeat / 8))
    if (!conclude(std::move(*v), false)) return;
  const bool any = std::any_of(ranks_.begin(), ranks_.end(),
                               [this](const RankView& r) { return r.stalled_ns >= options_.deadline; });
  if (!any) return;
  if (auto v = judge_all_stuck(ranks_, options_.deadline, callers(), options_.names))
    port_.decide(std::move(*v));
  else if (auto still =
               judge_standstill(ranks_, std::max(options_.standstill, options_.deadline), options_.names))
    port_.decide(std::move(*still));
}

void Coordinator::look_at_own() {
  const TimeNs left_at = view(kRank).left_at;
  view(kRank) = port_.own_view();
  if (view(kRank).left) view(kRank).left_at = left_at >= 0 ? left_at : rt_.now();
}

void Coordinator::was_away() {
  for (RankView& r : ranks_)
    if (r.heard_at >= 0) r.heard_at = rt_.now();
}

void Coordinator::consider(int reporter, Verdict v) {
  if (view(v.culprit).lost) {
    const Verdict& known = losses_.at(v.culprit);
    if (reporter != kRank)
      port_.send(reporter, {.type = ControlType::kLost,
                            .peer = known.culprit,
                            .code = known.code,
                            .operation = known.operation,
                            .reason = known.reason});
    return;
  }
  if (v.culprit == reporter) {
    conclude(std::move(v), true);
    return;
  }
  if (v.code == Code::kMismatch) {
    open_mismatch_window();
    disagreements_.push_back({reporter, v.culprit, std::move(v.operation), std::move(v.reason)});
    return;
  }
  if (v.code != Code::kPeerLost) {
    port_.decide(std::move(v));
    return;
  }
  if (view(v.culprit).left) {
    if (reporter != kRank) port_.send(reporter, {.type = ControlType::kPardon, .peer = v.culprit});
    return;
  }
  closed_.push_back(std::move(v));
  if (closed_timer_ == 0)
    closed_timer_ = rt_.call_at(rt_.now() + kClosedGrace, [this] {
      closed_timer_ = 0;
      decide_on_closed();
    });
}

void Coordinator::decide_on_closed() {
  for (Verdict& v : std::exchange(closed_, {})) {
    if (view(v.culprit).left || view(v.culprit).lost) continue;
    if (v.operation.empty()) v.operation = operation_around(ranks_, v.culprit);
    if (!conclude(std::move(v), false)) return;
  }
}

void Coordinator::set_expendable(const std::vector<int>& ranks) {
  expendable_.resize(ranks_.size());
  for (const int rank : ranks) expendable_[static_cast<std::size_t>(rank)] = true;
}

bool Coordinator::conclude(Verdict v, bool own) {
  const bool expendable = !expendable_.empty() && expendable_[static_cast<std::size_t>(v.culprit)];
  if (!expendable || (!own && v.code != Code::kPeerLost)) {
    port_.decide(std::move(v));
    return false;
  }
  const int rank = v.culprit;
  losses_.emplace(rank, v);
  view(rank) = {.heard_at = rt_.now(), .operation = {}, .lost = true};
  ControlMessage m{.peer = rank, .code = v.code, .operation = v.operation, .reason = v.reason};
  for (int other = 0; other < static_cast<int>(ranks_.size()); ++other) {
    if (other == kRank || (other != rank && view(other).lost)) continue;
    m.type = other == rank ? ControlType::kVerdict : ControlType::kLost;
    port_.send(other, m);
  }
  port_.lost(std::move(v));
  look_whether_all_left();
  return true;
}

// The first to tell of a call makes everybody tell.
Coordinator::Comparison* Coordinator::comparison_of(const Asked& call) {
  for (Comparison& c : comparisons_)
    if (c.id == call.id) return &c;
  const auto is_in = [&](const auto& list) {
    return std::find(list.begin(), list.end(), call.id) != list.end();
  };
  if (is_in(asked_.waiting) || is_in(asked_.done)) return nullptr;
  if (mismatch_timer_ != 0 || asked_.begun < most_in_a_beat()) return &compare(call);
  asked_.waiting.push_back(call);
  if (asked_.waiting.size() > kMaxComparisons) asked_.waiting.pop_front();
  return nullptr;
}

// The latest first: they are the likeliest to last still.
void Coordinator::compare_more() {
  if (rt_.now() - asked_.beat_at < options_.heartbeat) return;
  asked_.beat_at = rt_.now();
  asked_.begun = 0;
  compare_waiting(most_in_a_beat());
}

void Coordinator::compare_waiting(int most) {
  while (asked_.begun < most && !asked_.waiting.empty()) {
    const Asked call = asked_.waiting.back();
    asked_.waiting.pop_back();
    compare(call);
  }
}

int Coordinator::most_in_a_beat() const {
  return std::max(2, kAskedInABeat / static_cast<int>(ranks_.size()));
}

Coordinator::Comparison& Coordinator::compare(const Asked& call) {
  // One that differs is kept: its verdict is near.
  if (comparisons_.size() >= kMaxComparisons && comparisons_.front().classes.size() < 2) {
    asked_.done.push_back(comparisons_.front().id);
    if (asked_.done.size() > kMaxDone) asked_.done.pop_front();
    comparisons_.pop_front();
  }
  Comparison& made = comparisons_.emplace_back();
  made.id = call.id;
  ask(made, call.line);
  return made;
}

// Those who have told before tell again, which changes nothing.
void Coordinator::ask(Comparison& c, int line) {
  ++asked_.begun;
  c.lines.push_back(line);
  const CallId id = c.id;
  port_.broadcast({.type = ControlType::kCompare, .peer = line, .call = id.pack(), .turn = id.turn});
  port_.compare_own(id, line);
}

void Coordinator::call_told(int rank, const ControlMessage& m) {
  Comparison* const comparison = comparison_of({CallId::unpack(m.call, m.turn), m.peer});
  if (comparison == nullptr) return;
  Comparison& c = *comparison;
  const bool asked = std::find(c.lines.begin(), c.lines.end(), m.peer) != c.lines.end();
  if (!asked && (mismatch_timer_ != 0 || asked_.begun < most_in_a_beat())) ask(c, m.peer);
  std::erase(c.not_yet, rank);
  if (m.digest == kNotYet) {
    c.not_yet.push_back(rank);
    return;
  }
  CallClass* same = nullptr;
  for (CallClass& k : c.classes) {
    if (std::find(k.ranks.begin(), k.ranks.end(), rank) != k.ranks.end()) return;
    if (k.digest == m.digest) same = &k;
  }
  if (same != nullptr) {
    same->ranks.push_back(rank);
    same->serials.push_back(m.progress);
    same->num_new += m.code == Code::kMismatch ? 1 : 0;
    return;
  }
  c.classes.push_back({m.digest, m.operation, m.reason, {rank}, {m.progress}, {}});
  c.classes.back().num_new = m.code == Code::kMismatch ? 1 : 0;
  if (c.classes.size() > 1) open_mismatch_window();
}

std::vector<CallClass> Coordinator::callers() const {
  std::vector<CallClass> out;
  for (const Comparison& c : comparisons_)
    for (const CallClass& k : c.classes) {
      if (k.digest == kNotMade) continue;
      out.push_back(k);
      out.back().missing = c.not_yet;
    }
  return out;
}

void Coordinator::open_mismatch_window() {
  if (mismatch_timer_ != 0) return;
  compare_waiting(std::numeric_limits<int>::max());
  ask_where();
  // Asked again half-way: who was between two calls at first has stopped at the next one by then.
  mismatch_timer_ = rt_.call_at(rt_.now() + kMismatchWindow / 2, [this] {
    ask_where();
    mismatch_timer_ = rt_.call_at(rt_.now() + kMismatchWindow / 2, [this] { mismatch_window_ended(); });
  });
}

void Coordinator::ask_where() { port_.broadcast({.type = ControlType::kProbe}); }

void Coordinator::mismatch_window_ended() {
  mismatch_timer_ = 0;
  const auto differing = std::find_if(comparisons_.begin(), comparisons_.end(),
                                      [](const Comparison& c) { return c.classes.size() > 1; });
  if (differing == comparisons_.end()) {
    look_at_own();
    auto lone = judge_lone_caller(callers(), disagreements_, options_.names);
    port_.decide(lone ? std::move(*lone) : judge_mismatch(ranks_, disagreements_));
    return;
  }
  std::size_t num_told = 0;
  for (const CallClass& c : differing->classes) num_told += c.ranks.size();
  if (is_undecided(differing->classes) && num_told < ranks_.size() && !std::exchange(extended_, true)) {
    mismatch_timer_ = rt_.call_at(rt_.now() + kTieWindow, [this] { mismatch_window_ended(); });
    return;
  }
  port_.decide(judge_calls(differing->classes, disagreements_, options_.names));
}

void Coordinator::left(int rank) {
  view(rank).left = true;
  view(rank).left_at = rt_.now();
  look_whether_all_left();
}

void Coordinator::look_whether_all_left() {
  if (!std::all_of(ranks_.begin(), ranks_.end(), [](const RankView& r) { return r.left || r.lost; })) return;
  port_.broadcast({.type = ControlType::kFarewell});
  port_.all_left();
}

std::string Coordinator::missing_text() const {
  std::string text;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (!ranks_[rank].left && !ranks_[rank].lost) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return fmt::format("no goodbye from ranks {}", text);
}

}  // namespace trireme::net
