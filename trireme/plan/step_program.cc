#include "trireme/plan/step_program.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace trireme::plan {
namespace {

using Path = cost::Traffic::Path;
using Index = std::uint32_t;

class Builder {
 public:
  explicit Builder(const StepSpec& spec) : spec_(spec), slots_{spec.num_buckets()} {
    program_.rank = spec.rank;
  }

  // All parts of all cells; remembers where each part is.
  void compute() {
    parts_.assign(static_cast<std::size_t>(spec_.num_parts), {});
    for (const parallel::Cell& cell : spec_.cells)
      for (std::int32_t part = 0; part < spec_.num_parts; ++part) {
        std::vector<Index> after;
        if (part > 0) after.push_back(parts_[static_cast<std::size_t>(part) - 1].back());
        parts_[static_cast<std::size_t>(part)].push_back(
            add({.kind = ActionKind::kCompute, .cell = cell, .part = part}, after));
      }
  }

  // What must be done before the gradients of a bucket leave.
  const std::vector<Index>& made(std::size_t bucket) const { return parts(spec_.final_after[bucket]); }

  Index add(Action action, const std::vector<Index>& after) {
    action.first_dep = static_cast<Index>(program_.deps.size());
    action.num_deps = static_cast<Index>(after.size());
    program_.deps.insert(program_.deps.end(), after.begin(), after.end());
    program_.actions.push_back(action);
    return static_cast<Index>(program_.actions.size() - 1);
  }
  Index add(ActionKind kind, std::size_t bucket, const std::vector<Index>& after, std::int32_t peer = -1) {
    Action action{.kind = kind, .bucket = static_cast<std::int32_t>(bucket), .peer = peer};
    if (kind == ActionKind::kSum && peer == -1)
      action.slot = spec_.timetable == Timetable::kLockStep ? slots_.sum(bucket) : slots_.mean(bucket);
    return add(action, after);
  }

  // Parts of the next step wait for it, from `part` on.
  void carry(std::int32_t part, Index action) {
    for (const Index a : parts_[static_cast<std::size_t>(part)]) program_.carried.emplace_back(a, action);
  }

  const std::vector<Index>& last_parts() const { return parts_.back(); }
  // A part of all cells; the last one where nothing leaves before the end.
  const std::vector<Index>& parts(std::int32_t part) const {
    return spec_.overlap == Overlap::kNone ? parts_.back() : parts_[static_cast<std::size_t>(part)];
  }
  StepProgram take() { return std::move(program_); }

 private:
  const StepSpec& spec_;
  const Slots slots_;
  StepProgram program_;
  std::vector<std::vector<Index>> parts_;  // [part][cell]
};

// Ranks vote as soon as they have their losses, and where updates wait for the vote, when all sums are there.
StepProgram build_lock_step(const StepSpec& spec) {
  Builder b(spec);
  b.compute();
  std::vector<std::int32_t> order = spec.order;
  if (order.empty()) {
    order.resize(spec.num_buckets());
    std::iota(order.begin(), order.end(), 0);
  }
  std::vector<Index> sums(spec.num_buckets()), updates(spec.num_buckets());
  const auto update = [&](std::size_t i, std::vector<Index> after) {
    after.push_back(sums[i]);
    updates[i] = b.add(ActionKind::kUpdate, i, after);
  };
  for (const std::int32_t o : order) {
    const auto i = static_cast<std::size_t>(o);
    sums[i] = b.add(ActionKind::kSum, i, b.made(i));
    if (!spec.updates_wait) update(i, {});
  }
  std::vector<Index> known = b.parts(spec.loss_after);
  if (spec.updates_wait) known.insert(known.end(), sums.begin(), sums.end());
  const Index vote = b.add({.kind = ActionKind::kVote, .slot = spec.vote_slot}, known);
  for (std::size_t i = 0; spec.updates_wait && i < sums.size(); ++i) update(i, {vote});
  const bool full = spec.overlap == Overlap::kFull;
  for (std::size_t i = 0; i < updates.size(); ++i) b.carry(full ? spec.needed_by[i] : 0, updates[i]);
  b.carry(0, vote);
  return b.take();
}

// One logical shard at the worker's own pace: what a bucket does by the rule, after `known`.
Index leased_bucket(Builder& b, const StepSpec& spec, std::size_t bucket, const std::vector<Index>& known) {
  std::vector<Index> last = b.made(bucket);
  last.insert(last.end(), known.begin(), known.end());
  const auto then = [&](ActionKind kind, std::int32_t peer = -1) {
    last = {b.add(kind, bucket, last, peer)};
  };
  if (spec.updates_here) then(ActionKind::kUpdate);
  switch (spec.path) {
    case Path::kNone:
      break;
    case Path::kAllreduce:
      then(ActionKind::kSum);
      break;
    case Path::kServers:
      then(ActionKind::kSend, kServerPeers);
      then(ActionKind::kSum, kServerPeers);
      then(ActionKind::kRecv, kServerPeers);
      break;
    case Path::kPeers:
      then(ActionKind::kSend, kOtherWorkers);
      break;
  }
  return last.back();
}

StepProgram build_leased(const StepSpec& spec) {
  Builder b(spec);
  b.compute();
  // Nobody else votes on a worker's own unit.
  const bool waits = spec.updates_wait && spec.updates_here;
  const Index vote = b.add({.kind = ActionKind::kVote}, waits ? b.last_parts() : b.parts(spec.loss_after));
  std::vector<Index> ends{vote};
  for (std::size_t i = 0; i < spec.num_buckets(); ++i)
    ends.push_back(leased_bucket(b, spec, i, waits ? std::vector<Index>{vote} : std::vector<Index>{}));
  for (const Index end : ends) b.carry(0, end);
  return b.take();
}

constexpr StepRow kRows[] = {
    {Timetable::kLockStep, "Gradients are summed over all workers in every step.", build_lock_step},
    {Timetable::kLeased, "A worker takes one logical shard at its own pace; the rule says what travels.",
     build_leased},
};

Status check_spec(const StepSpec& spec) {
  const auto wrong = [](const char* what) { return error(Code::kInvalid, "[plan] step: {}", what); };
  if (spec.cells.empty() || spec.num_parts < 1) return wrong("expected at least one cell of one part");
  if (spec.final_after.empty() || spec.needed_by.size() != spec.final_after.size())
    return wrong("expected at least one bucket, and for each where it is needed and final");
  for (const auto* parts : {&spec.needed_by, &spec.final_after})
    for (const std::int32_t part : *parts)
      if (part < 0 || part >= spec.num_parts)
        return wrong("a bucket is needed or final in a part that is not there");
  if (spec.loss_after < 0 || spec.loss_after >= spec.num_parts)
    return wrong("the loss is made in a part that is not there");
  std::vector<std::int32_t> sorted = spec.order, all(spec.num_buckets());
  std::iota(all.begin(), all.end(), 0);
  std::sort(sorted.begin(), sorted.end());
  if (!sorted.empty() && sorted != all) return wrong("the order of sums does not name each bucket once");
  return {};
}

}  // namespace

std::string_view action_name(ActionKind kind) {
  constexpr std::string_view kNames[] = {"compute", "send", "recv", "sum", "update", "vote"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string Action::to_text() const {
  std::string text(action_name(kind));
  if (kind == ActionKind::kCompute) text += fmt::format(" {}, part {}", cell.to_text(), part);
  if (bucket >= 0) text += fmt::format(" bucket {}", bucket);
  if (kind == ActionKind::kSend || kind == ActionKind::kRecv)
    text += kind == ActionKind::kSend ? " to " : " from ";
  if (kind == ActionKind::kSum && peer == kServerPeers) text += " by ";
  if (peer == kServerPeers) text += "the servers";
  if (peer == kOtherWorkers) text += "other workers";
  if (peer >= 0) text += fmt::format("rank {}", peer);
  return text;
}

std::span<const StepRow> step_table() { return kRows; }

Result<StepProgram> build_step(const StepSpec& spec) {
  TR_RETURN_IF_ERROR(check_spec(spec));
  for (const StepRow& row : kRows)
    if (row.timetable == spec.timetable) return row.build(spec);
  return error(Code::kInvalid, "[plan] step: no row builds timetable '{}'", timetable_name(spec.timetable));
}

StepParts cut_step(std::span<const double> needed_at, std::span<const double> final_at, double loss_at,
                   double end) {
  std::set<double> inner{0.0, end, loss_at};
  inner.insert(needed_at.begin(), needed_at.end());
  inner.insert(final_at.begin(), final_at.end());
  StepParts parts;
  parts.cuts.push_back(0);
  parts.cuts.insert(parts.cuts.end(), inner.begin(), inner.end());
  parts.cuts.push_back(*inner.rbegin());
  // Part p ends at the p-th of the inner cuts, and part p + 1 begins there.
  const auto index = [&](double cut) {
    return static_cast<std::int32_t>(std::distance(inner.begin(), inner.find(cut)));
  };
  for (const double at : needed_at) parts.needed_by.push_back(index(at) + 1);
  for (const double at : final_at) parts.final_after.push_back(index(at));
  parts.loss_after = index(loss_at);
  return parts;
}

StepParts cut_strands(const StepCosts& costs) {
  const auto cuts = [](const std::vector<std::int32_t>& strands, int more) {
    std::vector<double> out;
    for (const std::int32_t s : strands) out.push_back(std::max(0, s + more));
    return out;
  };
  const auto end = static_cast<std::int32_t>(costs.strands.size());
  const std::int32_t loss = costs.loss_after < 0 ? end : costs.loss_after + 1;
  StepParts parts = cut_step(cuts(costs.needed_before, 0), cuts(costs.final_after, 1), loss, end);
  parts.updates_wait = costs.updates_wait;
  return parts;
}

StepSpec step_spec(const Plan& plan, const parallel::CellOwners& owners, const StepParts& parts,
                   const cost::Traffic& traffic, int rank) {
  StepSpec spec;
  spec.rank = rank;
  spec.cells = parallel::cells_of(owners, rank);
  // Segments are parts of a shard's cell: those of a rank follow each other.
  const auto is_same_shard = [](const parallel::Cell& a, const parallel::Cell& b) {
    return a.shard == b.shard && a.tile == b.tile;
  };
  if (plan.segments > 1) {
    spec.cells.erase(std::unique(spec.cells.begin(), spec.cells.end(), is_same_shard), spec.cells.end());
    for (parallel::Cell& cell : spec.cells) cell.segment = 0;
  }
  spec.timetable = plan.timetable;
  spec.overlap = plan.overlap;
  if (plan.overlap == Overlap::kFull) spec.order = plan.exchange_order;
  spec.path = traffic.path;
  spec.updates_here = traffic.updates_here;
  spec.num_parts = parts.size();
  spec.needed_by = parts.needed_by;
  spec.final_after = parts.final_after;
  spec.loss_after = parts.loss_after;
  spec.updates_wait = parts.updates_wait;
  return spec;
}

StepTimes walk_step(const StepProgram& program, std::span<const ActionPrice> prices, int steps) {
  const std::size_t n = program.actions.size();
  int lanes = 0;
  for (const ActionPrice& p : prices) lanes = std::max(lanes, p.lane + 1);
  std::vector<double> begin(n), end(n), ready(n), free(static_cast<std::size_t>(lanes));
  std::vector<double> computed;  // when the last part of each step ended
  for (int step = 0; step < steps; ++step) {
    std::fill(ready.begin(), ready.end(), 0.0);
    for (const auto& [later, earlier] : program.carried)
      if (step > 0) ready[later] = std::max(ready[later], end[earlier]);
    double last = 0;
    for (std::size_t i = 0; i < n; ++i) {
      begin[i] = ready[i];
      for (const std::uint32_t d : program.deps_of(program.actions[i])) begin[i] = std::max(begin[i], end[d]);
      const int lane = prices[i].lane;
      if (lane >= 0) begin[i] = std::max(begin[i], free[static_cast<std::size_t>(lane)]);
      end[i] = begin[i] + prices[i].seconds;
      if (lane >= 0) free[static_cast<std::size_t>(lane)] = end[i];
      if (program.actions[i].kind == ActionKind::kCompute) last = std::max(last, end[i]);
    }
    computed.push_back(last);
  }
  StepTimes times{begin, end, computed.back()};
  const std::size_t half = computed.size() / 2;  // the steps after it are steady
  if (half > 0)
    times.step_seconds = (computed.back() - computed[half - 1]) / static_cast<double>(computed.size() - half);
  const double zero = begin.empty() ? 0 : *std::min_element(begin.begin(), begin.end());
  for (std::size_t i = 0; i < n; ++i) times.begin[i] -= zero, times.end[i] -= zero;
  return times;
}

}  // namespace trireme::plan
