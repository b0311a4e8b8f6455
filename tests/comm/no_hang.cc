// Plays a scene and holds every rank's outcome against the promises:
//   - Every rank that lives ends, with every call and leave() returned.
//   - No trouble, or harmless trouble: every call succeeds.
//   - Otherwise every living rank gets one and the same error: culprit, code, operation, reason. Every call
//     and leave() after it returns that error too.
//   - Closed connection, mismatched call: within kPrompt.
//   - Silent rank: at the deadline, at most a heartbeat before or after. Its last heartbeat came up to one
//     before it fell silent; the heartbeat that is due at the deadline is waited for.
//   - Stuck ranks: at most a heartbeat after the deadline: they measure by heartbeats how long they stand.
#include "tests/comm/no_hang.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/comm/no_hang_play.h"

namespace trireme::comm::testing {
namespace {

using collective::Kind;

constexpr TimeNs kPrompt = 1 * kSecond;
// Link latencies, messages of a few hundred kilobytes, and compute between two calls.
constexpr TimeNs kSlack = 30 * kMilli;

// The latest call of anybody: who is stuck stands still soon after.
TimeNs last_call(const Played& p) {
  TimeNs last = 0;
  for (const RankLog& log : p.ranks) {
    last = std::max(last, log.leave_at);
    for (const TimeNs t : log.called) last = std::max(last, t);
  }
  return last;
}

// What the others must be told, and when.
struct Expected {
  std::set<Code> codes;
  TimeNs earliest = 0, latest = 0;
  std::set<int> culprits;  // empty: anybody
  std::string operation;   // part of it
  bool may_pass = false;   // nothing may come of it
};

Expected expect_mismatch(const Scene& s, const Played& p) {
  const Op& op = op_of(s, s.op);
  const Op wrong = deviate(op, s.trouble, world_of(s, op), s.seed);
  Expected e;
  e.codes = {Code::kMismatch};
  // From when the last rank made the call. At the end of a job the leftovers show it.
  for (const RankLog& log : p.ranks)
    e.latest = std::max(e.latest, log.called[static_cast<std::size_t>(s.op)]);
  bool all_left = true;
  for (const RankLog& log : p.ranks) all_left &= log.leave_at >= 0;
  e.latest = (all_left ? last_call(p) : e.latest) + kPrompt;
  if (world_of(s, op) > 2)
    e.culprits = {s.culprit};
  else if (op.in_subgroup)
    e.culprits = {s.members.begin(), s.members.end()};
  e.operation = label_of(op);
  // Nothing travels, so nobody waits and nobody is harmed.
  e.may_pass = op.count == 0 && wrong.count == 0 && op.kind != Kind::kBarrier && wrong.kind != Kind::kBarrier;
  // Two algorithms may exchange the same messages.
  e.may_pass |= s.trouble == Trouble::kOtherAlgorithm;
  return e;
}

Expected expect_stuck(const Scene& s, const Played& p) {
  const net::MembershipOptions m;
  const Op& op = op_of(s, s.op);
  Expected e;
  // A leftover message and memory that ranks share show it sooner, as a mismatch.
  e.codes = {Code::kDeadline, Code::kMismatch};
  e.latest = last_call(p) + m.deadline + m.heartbeat + kSlack;
  const int world = s.trouble == Trouble::kExtra ? s.world : world_of(s, op);
  if (world > 2)
    e.culprits = {s.culprit};
  else if (s.trouble == Trouble::kMissing && op.in_subgroup)
    e.culprits = {s.members.begin(), s.members.end()};
  e.may_pass = s.trouble == Trouble::kMissing && op.count == 0 && op.kind != Kind::kBarrier;
  return e;
}

Expected expected_of(const Scene& s, const Played& p) {
  const net::MembershipOptions m;
  Expected e;
  e.culprits = {s.culprit};
  // From the first leave() on it may strike a rank that has nothing more to do.
  if (s.op < 0)
    for (const RankLog& log : p.ranks) e.may_pass |= log.leave_at >= 0 && log.leave_at <= p.struck;
  switch (s.trouble) {
    case Trouble::kKill:
      e.codes = {Code::kPeerLost};
      e.earliest = p.struck;
      e.latest = p.struck + kPrompt;
      return e;
    case Trouble::kError:
      e.codes = {Code::kInternal};
      e.earliest = p.struck;
      e.latest = p.struck + kPrompt;
      e.operation = label_of(op_of(s, s.op));
      return e;
    case Trouble::kLongPause:
    case Trouble::kLongMute:
    case Trouble::kBlackout:
      e.codes = {Code::kPeerLost};
      e.earliest = p.struck + m.deadline - m.heartbeat;
      e.latest = p.struck + m.deadline + m.heartbeat + kSlack;
      return e;
    case Trouble::kEdge:
      e.codes = {Code::kPeerLost};
      e.earliest = p.struck + m.deadline - m.heartbeat;
      e.latest = p.struck + m.deadline + m.heartbeat + kSlack;
      e.may_pass = true;
      // Back for a moment, a coordinator may hear some before it misses the others.
      if (s.culprit == 0) e.culprits.clear();
      return e;
    case Trouble::kBlink:  // a lost message: somebody waits for ever, and nobody can tell whose it was
      e.codes = {Code::kPeerLost, Code::kDeadline, Code::kMismatch};
      e.latest = std::max(last_call(p), p.struck + s.duration) + m.deadline + m.heartbeat + kSlack;
      e.culprits.clear();
      e.may_pass = true;
      return e;
    case Trouble::kMissing:
    case Trouble::kExtra:
      return expect_stuck(s, p);
    default:
      return expect_mismatch(s, p);
  }
}

bool is_harmless(const Scene& s) {
  return s.trouble == Trouble::kNone || s.trouble == Trouble::kShortPause ||
         s.trouble == Trouble::kShortMute || (s.trouble == Trouble::kBlink && s.transport == "tcp");
}
bool strikes_silently(Trouble t) {
  return t == Trouble::kLongPause || t == Trouble::kLongMute || t == Trouble::kEdge ||
         t == Trouble::kBlackout;
}

// What a rank got once, it gets for ever.
void check_constant(const RankLog& log) {
  for (const Status& s : log.results) {
    if (!s.ok()) {
      EXPECT_EQ(s.message(), log.first.message());
    }
  }
  EXPECT_EQ(log.later.message(), log.first.message());
  EXPECT_EQ(log.left.message(), log.first.message());
}

void check_error(const Expected& e, const RankLog& log) {
  const Status& error = log.first;
  EXPECT_EQ(e.codes.count(error.code()), 1U) << error.to_string();
  EXPECT_GE(log.first_at, e.earliest) << error.to_string();
  EXPECT_LE(log.first_at, e.latest) << error.to_string();
  const int culprit = error.context().peer.value_or(-1);
  EXPECT_TRUE(e.culprits.empty() || e.culprits.count(culprit) == 1)
      << "blames rank " << culprit << ": " << error.to_string();
  EXPECT_FALSE(error.context().reason.empty());
  if (error.code() == Code::kMismatch || error.code() == Code::kDeadline) {
    EXPECT_FALSE(error.context().operation.empty()) << error.to_string();
  }
  EXPECT_NE(error.context().operation.find(e.operation), std::string::npos) << error.to_string();
  check_constant(log);
}

void check_harmless(const Played& p) {
  for (std::size_t r = 0; r < p.ranks.size(); ++r) {
    EXPECT_TRUE(p.ranks[r].first.ok()) << "rank " << r << ": " << p.ranks[r].first.to_string();
    EXPECT_TRUE(p.ranks[r].left.ok()) << "rank " << r << ": " << p.ranks[r].left.to_string();
  }
}

// The rank that was away: it ends too, and what it is told stays. A paused one finds the verdict that names
// itself; a muted one cannot know whether it or the coordinator was cut off.
void check_struck(const Scene& s, const RankLog& log, TimeNs struck, bool others_failed) {
  EXPECT_TRUE(log.ended);
  if (!others_failed) return;
  // It had nothing more to do than to hear the others' goodbyes, and these came first.
  if (log.first.ok() && log.leave_at >= 0 && log.leave_at <= struck) return;
  EXPECT_FALSE(log.first.ok());
  EXPECT_EQ(log.first.code(), Code::kPeerLost) << log.first.to_string();
  if (!s.muting && s.trouble == Trouble::kLongPause) {
    EXPECT_EQ(log.first.context().peer.value_or(-1), s.culprit) << log.first.to_string();
  }
  check_constant(log);
}

void check_played(const Scene& s, const Played& p) {
  EXPECT_TRUE(p.report.finished) << format_duration(p.report.end_time) << ": " << p.report.stuck;
  for (std::size_t r = 0; r < p.ranks.size() && !p.report.finished; ++r)
    ADD_FAILURE() << fmt::format("rank {} began {} left {} ended {}: {}", r, p.ranks[r].began_at,
                                 p.ranks[r].leave_at, p.ranks[r].ended, p.ranks[r].first.to_string());
  if (is_harmless(s)) {
    check_harmless(p);
    return;
  }
  const Expected e = expected_of(s, p);
  std::set<std::string> verdicts;
  std::size_t num_failed = 0, num_ok = 0;
  for (int r = 0; r < s.world; ++r) {
    const RankLog& log = p.ranks[static_cast<std::size_t>(r)];
    const bool away = r == s.culprit && (s.trouble == Trouble::kKill || strikes_silently(s.trouble));
    if (away) continue;
    EXPECT_TRUE(log.ended) << "rank " << r;
    if (log.first.ok()) {
      ++num_ok;
      continue;
    }
    SCOPED_TRACE(fmt::format("rank {}", r));
    ++num_failed;
    check_error(e, log);
    const ErrorContext& c = log.first.context();
    verdicts.insert(fmt::format("{} {} '{}' '{}'", c.peer.value_or(-1), code_name(log.first.code()),
                                c.operation, c.reason));
  }
  EXPECT_TRUE(num_ok == 0 || num_failed == 0) << num_ok << " ranks noticed nothing";
  EXPECT_TRUE(num_failed > 0 || e.may_pass) << "nobody noticed anything";
  EXPECT_LE(verdicts.size(), 1U) << fmt::format("{}", fmt::join(verdicts, "\n"));
  if (strikes_silently(s.trouble))
    check_struck(s, p.ranks[static_cast<std::size_t>(s.culprit)], p.struck, num_failed > 0);
}

}  // namespace

void check_scene(const Scene& scene) {
  SCOPED_TRACE(scene.text());
  check_played(scene, play_scene(scene));
}

std::uint64_t trace_of(const Scene& scene) { return play_scene(scene).report.trace_hash; }

}  // namespace trireme::comm::testing
