// Plays a scene and holds every rank's outcome against the promises:
//   - every rank that lives ends, with every call and leave() returned;
//   - no trouble, or harmless trouble: every call succeeds;
//   - otherwise every living rank gets one and the same error: culprit, code, operation and reason; every
//   call
//     and leave() after it returns that error too;
//   - closed connection, mismatched call: within kPrompt; silent rank: at the deadline and at most a
//   heartbeat
//     later (its last heartbeat was up to one before it fell silent, so the verdict may come that much before
//     fault + deadline; the heartbeat that is due at the deadline is waited for); stuck ranks: likewise,
//     since each measures how long it stands still by its heartbeats.
#include "tests/comm/no_hang.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "tests/comm/mute.h"
#include "trireme/base/rng.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm::testing {
namespace {

using collective::Kind;
using FaultKind = runtime::FaultSpec::Kind;

constexpr TimeNs kPrompt = 1 * kSecond;
// Link latencies, messages of a few hundred kilobytes, and compute between two calls.
constexpr TimeNs kSlack = 30 * kMilli;
constexpr std::uint16_t kSubgroupId = 7;

struct RankLog {
  std::vector<TimeNs> called;   // by number of the op; -1: not
  std::vector<Status> results;  // of the calls that returned
  Status first;                 // error
  TimeNs first_at = -1;
  Status later, left;
  TimeNs began_at = -1, leave_at = -1;  // when it had its group; when it called leave()
  bool ended = false;
  Mute* mute = nullptr;
};

struct Played {
  std::vector<RankLog> ranks;
  runtime::WorldReport report;
  TimeNs struck = -1;
};

int world_of(const Scene& s, const Op& op) {
  return op.in_subgroup ? static_cast<int>(s.members.size()) : s.world;
}
const Op& op_of(const Scene& s, int number) {
  for (const auto& batch : s.batches)
    for (const Op& op : batch)
      if (op.number == number) return op;
  TR_CHECK(false, "no op {}", number);
}
bool is_member(const Scene& s, const Op& op, int rank) {
  return !op.in_subgroup || std::find(s.members.begin(), s.members.end(), rank) != s.members.end();
}

std::vector<std::size_t> order_of(const Scene& s, std::size_t batch, int rank) {
  std::vector<std::size_t> order(s.batches[batch].size());
  std::iota(order.begin(), order.end(), 0);
  Philox rng(s.seed, 100 + 1000 * batch + static_cast<std::size_t>(rank));
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[rng.next_below(static_cast<std::uint32_t>(i))]);
  return order;
}
// Which call of the culprit is the one that is struck, counted from 1.
std::uint64_t struck_call(const Scene& s) {
  std::uint64_t n = 0;
  for (std::size_t b = 0; b < s.batches.size(); ++b)
    for (const std::size_t i : order_of(s, b, s.culprit)) {
      const Op& op = s.batches[b][i];
      if (is_member(s, op, s.culprit)) ++n;
      if (op.number == s.op) return n;
    }
  return 0;
}

Op deviate(const Scene& s, const Op& op) { return deviate(op, s.trouble, world_of(s, op), s.seed); }

runtime::Task<Status> play_op(runtime::Runtime& rt, const Scene& s, Group& whole, Group* sub, Op op,
                              RankLog& log) {
  log.called[static_cast<std::size_t>(op.number)] = rt.now();
  if (op.number == s.op && whole.rank() == s.culprit) {
    if (s.muting) log.mute->begin(s.duration);
    if (s.trouble == Trouble::kMissing) co_return Status();
    if (s.trouble == Trouble::kExtra) {
      Op extra = extra_op(s.culprit, op.step, s.seed);
      TR_CO_RETURN_IF_ERROR(co_await make_call(whole, std::move(extra)));
    }
    op = deviate(s, op);
  }
  Group& group = op.in_subgroup ? *sub : whole;
  Status status = co_await make_call(group, std::move(op));
  log.results.push_back(status);
  if (!status.ok() && log.first.ok()) {
    log.first = status;
    log.first_at = rt.now();
  }
  co_return status;
}

runtime::Task<void> play_rank(runtime::Runtime& rt, const Scene& s, Group& group, RankLog& log) {
  log.began_at = rt.now();
  std::unique_ptr<Group> sub;
  if (std::find(s.members.begin(), s.members.end(), group.rank()) != s.members.end()) {
    auto made = group.subgroup(s.members, kSubgroupId);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    sub = std::move(made).value();
  }
  Status status;
  for (std::size_t b = 0; b < s.batches.size() && status.ok(); ++b) {
    Philox rng(s.seed, 7 + 100 * b + 10'000 * static_cast<std::size_t>(group.rank()));
    const cost::OpCost work{2e6 * rng.next_double(), 1e6 * rng.next_double()};
    co_await rt.compute(work, nullptr);
    std::vector<runtime::Task<Status>> calls;
    for (const std::size_t i : order_of(s, b, group.rank())) {
      const Op& op = s.batches[b][i];
      if (is_member(s, op, group.rank())) calls.push_back(play_op(rt, s, group, sub.get(), op, log));
    }
    status = co_await runtime::when_all(rt, std::move(calls));
  }
  Call later;
  later.label = "later";
  later.slot = 800;
  if (!status.ok()) log.later = co_await group.barrier(later);
  log.leave_at = rt.now();
  log.left = co_await group.leave();
  if (!log.left.ok() && log.first.ok()) {
    log.first = log.left;
    log.first_at = rt.now();
    log.later = co_await group.barrier(later);
  }
  sub.reset();
  log.ended = true;
}

runtime::FaultSpec fault_of(const Scene& s, TimeNs at) {
  runtime::FaultSpec fault;
  fault.runtime = s.culprit;
  fault.kind = s.trouble == Trouble::kKill                                       ? FaultKind::kKill
               : s.trouble == Trouble::kError                                    ? FaultKind::kError
               : s.trouble == Trouble::kBlackout || s.trouble == Trouble::kBlink ? FaultKind::kMute
                                                                                 : FaultKind::kPause;
  fault.duration = s.duration;
  if (s.op >= 0) {
    fault.site = "collective";
    fault.index = struck_call(s);
  } else {
    fault.at = at;
  }
  return fault;
}

bool needs_fault(const Scene& s) {
  switch (s.trouble) {
    case Trouble::kKill:
    case Trouble::kShortPause:
    case Trouble::kLongPause:
    case Trouble::kEdge:
    case Trouble::kBlackout:
    case Trouble::kBlink:
    case Trouble::kError:
      return !s.muting;
    default:
      return false;
  }
}

runtime::Task<void> mute_later(runtime::Runtime& rt, TimeNs at, TimeNs duration, RankLog& log) {
  co_await rt.sleep_until(at);
  if (!log.ended) log.mute->begin(duration);
}

// `at`: when a trouble strikes that does not strike a call; -1: none.
Played play(const Scene& s, TimeNs at) {
  Played out;
  out.ranks.resize(static_cast<std::size_t>(s.world));
  std::size_t num_ops = 0;
  for (const auto& batch : s.batches) num_ops += batch.size();
  for (RankLog& log : out.ranks) log.called.assign(num_ops, -1);

  RankOptions options;
  options.world = s.world;
  options.transport = s.transport;
  options.ring_bytes = 64 << 10;
  for (int r = 0; r < s.world; ++r) options.group.machine_of.push_back(r / 3);
  if (s.muting)
    options.wrap = [&out](runtime::Runtime& rt, std::unique_ptr<net::Transport> inner) {
      Mute*& mute = out.ranks[static_cast<std::size_t>(inner->rank())].mute;
      return make_mute_transport(rt, std::move(inner), &mute);
    };
  runtime::WorldSpec spec;
  spec.seed = s.seed;
  spec.latency_jitter = s.jitter;
  const bool strikes = s.op >= 0 || at >= 0;
  if (strikes && needs_fault(s)) spec.faults = {fault_of(s, at)};
  const Body body = [&](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
    RankLog& log = out.ranks[static_cast<std::size_t>(group.rank())];
    if (s.muting && at >= 0 && group.rank() == s.culprit) rt.spawn(mute_later(rt, at, s.duration, log));
    return play_rank(rt, s, group, log);
  };
  out.report = run_virtual(options, spec, body).report;
  out.struck = at;
  if (s.op >= 0)
    out.struck = out.ranks[static_cast<std::size_t>(s.culprit)].called[static_cast<std::size_t>(s.op)];
  return out;
}

Played play(const Scene& s) {
  if (s.op >= 0 || s.trouble == Trouble::kNone) return play(s, -1);
  // Not while they connect: that is the transport's own affair.
  const Played quiet = play(s, -1);
  TimeNs begin = 0;
  for (const RankLog& log : quiet.ranks) begin = std::max(begin, log.began_at);
  return play(s,
              begin + 1 + static_cast<TimeNs>(s.when * static_cast<double>(quiet.report.end_time - begin)));
}

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
  const Op wrong = deviate(s, op);
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

// Of one rank: what it got it gets for ever.
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
  check_played(scene, play(scene));
}

std::uint64_t trace_of(const Scene& scene) { return play(scene).report.trace_hash; }

}  // namespace trireme::comm::testing
