#include "tests/comm/no_hang_play.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "trireme/base/rng.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm::testing {
namespace {

using FaultKind = runtime::FaultSpec::Kind;

constexpr std::uint16_t kSubgroupId = 7;

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

}  // namespace

int world_of(const Scene& s, const Op& op) {
  return op.in_subgroup ? static_cast<int>(s.members.size()) : s.world;
}
const Op& op_of(const Scene& s, int number) {
  for (const auto& batch : s.batches)
    for (const Op& op : batch)
      if (op.number == number) return op;
  TR_CHECK(false, "no op {}", number);
}
Played play_scene(const Scene& s) {
  if (s.op >= 0 || s.trouble == Trouble::kNone) return play(s, -1);
  // Not while they connect: that is the transport's own affair.
  const Played quiet = play(s, -1);
  TimeNs begin = 0;
  for (const RankLog& log : quiet.ranks) begin = std::max(begin, log.began_at);
  return play(s,
              begin + 1 + static_cast<TimeNs>(s.when * static_cast<double>(quiet.report.end_time - begin)));
}

}  // namespace trireme::comm::testing
