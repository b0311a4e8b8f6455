#include "trireme/net/judge.h"

#include <algorithm>
#include <tuple>

#include "trireme/base/check.h"

namespace trireme::net {
namespace {

bool valid(std::span<const RankView> ranks, int rank) {
  return rank >= 0 && rank < static_cast<int>(ranks.size());
}
const RankView& at(std::span<const RankView> ranks, int rank) {
  return ranks[static_cast<std::size_t>(rank)];
}

// What the judge knows of the ranks and their calls.
struct Case {
  std::span<const RankView> ranks;
  TimeNs deadline = 0;
  std::span<const CallClass> calls;
  const RankNames& names;

  const std::string& operation(int rank) const { return at(ranks, rank).operation; }
  const CallClass* call(const std::string& operation) const {
    for (const CallClass& c : calls)
      if (c.operation == operation) return &c;
    return nullptr;
  }
  // How many ranks are in the operation of `rank`, or have made that call.
  int num_sharing(int rank) const {
    const auto in_it = std::count_if(ranks.begin(), ranks.end(),
                                     [&](const RankView& r) { return r.operation == operation(rank); });
    const CallClass* c = call(operation(rank));
    return std::max(static_cast<int>(in_it), c == nullptr ? 0 : static_cast<int>(c->ranks.size()));
  }
  bool missed(int rank, const std::string& operation) const {
    const CallClass* c = call(operation);
    return c != nullptr && std::find(c->missing.begin(), c->missing.end(), rank) != c->missing.end();
  }
  // Each is in a call that the other should make and has not. Who is merely behind is not in conflict.
  bool conflict(int a, int b) const { return missed(b, operation(a)) && missed(a, operation(b)); }
  int num_conflicts(int rank) const {
    int n = 0;
    for (int other = 0; other < static_cast<int>(ranks.size()); ++other) n += conflict(rank, other) ? 1 : 0;
    return n;
  }
  // Ranks that made both, in this order.
  int num_in_order(const std::string& first, const std::string& second) const {
    const CallClass *a = call(first), *b = call(second);
    int n = 0;
    for (std::size_t i = 0; a != nullptr && b != nullptr && i < a->serials.size(); ++i) {
      const auto rank = std::find(b->ranks.begin(), b->ranks.end(), a->ranks[i]);
      const auto at_b = static_cast<std::size_t>(rank - b->ranks.begin());
      n += at_b < b->serials.size() && a->serials[i] < b->serials[at_b] ? 1 : 0;
    }
    return n;
  }
};

std::string chain_text(std::span<const int> chain) {
  std::string text;
  for (const int rank : chain) text += fmt::format("{} -> ", rank);
  return text + fmt::format("{}", chain.front());
}

// Who skipped a call. First by order: a rank that is in a call and has not made another, which most made
// before that one. Else, of two neighbours in conflict, who is so with more ranks. -1: nobody.
int find_skipper(const Case& c, std::span<const int> cycle) {
  const auto skipped = [&c](int rank, const std::string& call) {
    const std::string& now = c.operation(rank);
    return c.missed(rank, call) && c.num_in_order(call, now) > c.num_in_order(now, call);
  };
  const auto next = [&](std::size_t i) { return cycle[(i + 1) % cycle.size()]; };
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (skipped(next(i), c.operation(cycle[i]))) return next(i);
    if (skipped(cycle[i], c.operation(next(i)))) return cycle[i];
  }
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (!c.conflict(cycle[i], next(i))) continue;
    const int here = c.num_conflicts(cycle[i]), there = c.num_conflicts(next(i));
    if (here != there) return here > there ? cycle[i] : next(i);
  }
  return -1;
}

// The odd one out of a cycle of ranks that wait for each other.
Verdict judge_cycle(const Case& c, std::span<const int> cycle) {
  int culprit = find_skipper(c, cycle);
  for (int fewest = 0; const int rank : culprit >= 0 ? std::span<const int>() : cycle) {
    const int sharing = c.num_sharing(rank);
    if (culprit < 0 || sharing < fewest || (sharing == fewest && rank > culprit)) {
      culprit = rank;
      fewest = sharing;
    }
  }
  const std::string operation = operation_around(c.ranks, culprit);
  const std::string& own = c.operation(culprit);
  const std::string where = own == operation ? "" : fmt::format(", it called '{}'", own);
  return {culprit, Code::kDeadline, operation,
          fmt::format("no progress for {}{}; ranks wait in a circle {}", format_duration(c.deadline), where,
                      chain_text(cycle))};
}

// One chain. `seen` holds the ranks of earlier chains too: those came to nothing, so a chain that meets them
// does too.
std::optional<Verdict> walk(const Case& c, int start, std::vector<bool>& seen) {
  const std::span<const RankView> ranks = c.ranks;
  std::vector<int> chain;
  for (int rank = start;; rank = at(ranks, rank).waits_for) {
    if (!valid(ranks, rank)) return std::nullopt;
    const RankView& r = at(ranks, rank);
    if (seen[static_cast<std::size_t>(rank)]) {
      const auto first = std::find(chain.begin(), chain.end(), rank);
      if (first == chain.end()) return std::nullopt;
      return judge_cycle(c, {first, chain.end()});
    }
    // What is known of who waits for it may be older than the goodbye.
    if (r.left && r.left_at >= 0 && !chain.empty() &&
        at(ranks, chain.back()).heard_at - r.left_at < c.deadline)
      return std::nullopt;
    if (r.left && !chain.empty())
      return Verdict{rank, Code::kDeadline, at(ranks, chain.back()).operation,
                     fmt::format("it had left, {} still waits for it", c.names.text(chain.back()))};
    if (r.heard_at < 0 || r.busy || r.patient || r.lost || r.stalled_ns < c.deadline) return std::nullopt;
    if (r.waits_for < 0) {
      if (chain.empty()) return std::nullopt;
      return Verdict{rank, Code::kDeadline, at(ranks, chain.back()).operation,
                     fmt::format("it did not call for {}, {} waits for it", format_duration(c.deadline),
                                 c.names.text(chain.back()))};
    }
    seen[static_cast<std::size_t>(rank)] = true;
    chain.push_back(rank);
  }
}

}  // namespace

std::string operation_around(std::span<const RankView> ranks, int culprit) {
  for (const RankView& r : ranks)
    if (r.waits_for == culprit && !r.operation.empty()) return r.operation;
  if (valid(ranks, culprit) && !at(ranks, culprit).operation.empty()) return at(ranks, culprit).operation;
  for (const RankView& r : ranks)
    if (!r.operation.empty()) return r.operation;
  return {};
}

std::optional<Verdict> judge_silence(std::span<const RankView> ranks, int self, TimeNs now, TimeNs started,
                                     TimeNs deadline, TimeNs arrival, TimeNs slack) {
  int culprit = -1, num_quiet = 0, num_judged = 0;
  bool heard_one_that_left = false;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    const RankView& r = at(ranks, rank);
    if (rank == self || r.lost) continue;
    if (r.left) {
      heard_one_that_left |= r.heard_at >= 0 && now - r.heard_at < deadline / 2;
      continue;
    }
    ++num_judged;
    const bool never = r.heard_at < 0;
    const TimeNs silent = now - (never ? started : r.heard_at);
    if (silent >= (never ? arrival : deadline) + slack && culprit < 0) culprit = rank;
    if (silent >= deadline / 2) ++num_quiet;
  }
  if (culprit < 0) return std::nullopt;
  if (num_quiet == num_judged && num_judged > 1 && !heard_one_that_left)
    return Verdict{self, Code::kPeerLost, operation_around(ranks, self),
                   fmt::format("heard nobody for {}: this rank was cut off", format_duration(deadline))};
  const bool never = at(ranks, culprit).heard_at < 0;
  return Verdict{culprit, Code::kPeerLost, operation_around(ranks, culprit),
                 never ? fmt::format("never heard of for {}", format_duration(arrival))
                       : fmt::format("silent for {}", format_duration(deadline))};
}

std::optional<Verdict> judge_stuck(std::span<const RankView> ranks, int start, TimeNs deadline,
                                   std::span<const CallClass> calls, const RankNames& names) {
  std::vector<bool> seen(ranks.size());
  return walk({ranks, deadline, calls, names}, start, seen);
}

std::optional<Verdict> judge_all_stuck(std::span<const RankView> ranks, TimeNs deadline,
                                       std::span<const CallClass> calls, const RankNames& names) {
  std::vector<bool> seen(ranks.size());
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    const RankView& r = at(ranks, rank);
    if (r.stalled_ns < deadline || r.waits_for < 0 || seen[static_cast<std::size_t>(rank)]) continue;
    if (auto v = walk({ranks, deadline, calls, names}, rank, seen)) return v;
  }
  return std::nullopt;
}

std::optional<Verdict> judge_standstill(std::span<const RankView> ranks, TimeNs standstill,
                                        const RankNames& names) {
  int waiting = -1, left = -1, here = -1;  // the lowest of each
  for (int rank = static_cast<int>(ranks.size()) - 1; rank >= 0; --rank) {
    const RankView& r = at(ranks, rank);
    if (r.left) left = rank;
    if (r.left || r.lost) continue;
    here = rank;
    if (r.heard_at < 0 || r.busy || r.stalled_ns < standstill) return std::nullopt;
    if (valid(ranks, r.waits_for)) waiting = rank;
  }
  if (waiting < 0 && left >= 0 && here >= 0)
    return Verdict{here, Code::kDeadline, at(ranks, left).operation,
                   fmt::format("no rank did anything for {}, {} waits for it to leave",
                               format_duration(standstill), names.text(left))};
  if (waiting < 0) return std::nullopt;
  std::vector<int> chain{waiting};
  for (;;) {
    const int next = at(ranks, chain.back()).waits_for;
    if (!valid(ranks, next)) break;
    const auto seen = std::find(chain.begin(), chain.end(), next);
    if (seen == chain.end()) {
      chain.push_back(next);
      continue;
    }
    chain.erase(chain.begin(), seen);
    std::rotate(chain.begin(), std::next(std::max_element(chain.begin(), chain.end())), chain.end());
    break;
  }
  const int before = chain.size() > 1 ? chain[chain.size() - 2] : chain.back();
  return Verdict{chain.back(), Code::kDeadline, at(ranks, before).operation,
                 fmt::format("no rank did anything for {}, {} waits for it", format_duration(standstill),
                             names.text(before))};
}

Verdict judge_mismatch(std::span<const RankView> ranks, std::span<const Disagreement> reports) {
  TR_CHECK(!reports.empty(), "nobody disagrees");
  struct Candidate {
    int rank, degree, sharing, accused;
  };
  std::vector<Candidate> candidates;
  const auto candidate = [&](int rank) -> Candidate& {
    for (Candidate& c : candidates)
      if (c.rank == rank) return c;
    const int sharing = valid(ranks, rank) ? Case{ranks, 0, {}, RankNames{}}.num_sharing(rank) : 0;
    return candidates.emplace_back(Candidate{rank, 0, sharing, 0});
  };
  // The accused come first, so that an equal score falls on who was accused first.
  for (const Disagreement& d : reports) {
    Candidate& c = candidate(d.accused);
    ++c.degree;
    ++c.accused;
  }
  for (const Disagreement& d : reports) ++candidate(d.reporter).degree;
  const auto worse = [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.degree, a.sharing, -a.accused) < std::tuple(-b.degree, b.sharing, -b.accused);
  };
  const Candidate& culprit = *std::min_element(candidates.begin(), candidates.end(), worse);
  // Name the operation and the reason as an innocent rank saw them, where one reported.
  const Disagreement* evidence = &reports.front();
  for (const Disagreement& d : reports)
    if (d.accused == culprit.rank) {
      evidence = &d;
      break;
    }
  return {culprit.rank, Code::kMismatch, evidence->operation, evidence->reason};
}

std::optional<Verdict> judge_lone_caller(std::span<const CallClass> calls,
                                         std::span<const Disagreement> reports, const RankNames& names) {
  for (const Disagreement& d : reports)
    for (const CallClass& c : calls) {
      if (c.ranks.size() != 1 || (c.ranks[0] != d.reporter && c.ranks[0] != d.accused)) continue;
      const int lone = c.ranks[0], other = lone == d.reporter ? d.accused : d.reporter;
      if (lone == d.reporter && c.operation != d.operation) continue;  // it is about another call
      if (std::find(c.missing.begin(), c.missing.end(), other) == c.missing.end()) continue;
      return Verdict{lone, Code::kMismatch, d.operation,
                     fmt::format("mismatched call: {} called {}, {} did not", names.text(lone), c.words,
                                 names.text(other))};
    }
  return std::nullopt;
}

bool is_undecided(std::span<const CallClass> classes) {
  return std::all_of(classes.begin(), classes.end(),
                     [&](const CallClass& c) { return c.ranks.size() == classes.front().ranks.size(); });
}

namespace {

// Steps repeat their calls, so that among ways of equally many ranks the one is wrong that is new to all that
// made it, where the others are new to nobody.
const CallClass* changed_alone(std::span<const CallClass> classes) {
  const CallClass* found = nullptr;
  for (const CallClass& c : classes) {
    if (c.num_new == 0) continue;
    if (found != nullptr || c.num_new < c.ranks.size()) return nullptr;
    found = &c;
  }
  return found;
}

}  // namespace

Verdict judge_calls(std::span<const CallClass> classes, std::span<const Disagreement> reports,
                    const RankNames& names) {
  TR_CHECK(classes.size() > 1, "nobody disagrees");
  const auto fewer = [](const CallClass& a, const CallClass& b) { return a.ranks.size() < b.ranks.size(); };
  const CallClass* odd = &*std::min_element(classes.begin(), classes.end(), fewer);
  const CallClass* const changed = is_undecided(classes) ? changed_alone(classes) : nullptr;
  if (changed != nullptr) odd = changed;
  int culprit = *std::min_element(odd->ranks.begin(), odd->ranks.end());
  if (is_undecided(classes) && changed == nullptr) {
    const auto blame = [&](int rank) {
      return std::pair(std::count_if(reports.begin(), reports.end(),
                                     [&](const Disagreement& d) { return d.accused == rank; }),
                       rank);
    };
    for (const CallClass& c : classes)
      for (const int rank : c.ranks)
        if (blame(rank) > blame(culprit)) {
          culprit = rank;
          odd = &c;
        }
  }
  const CallClass* usual = nullptr;
  for (const CallClass& c : classes)
    if (&c != odd && (usual == nullptr || fewer(*usual, c))) usual = &c;
  const int witness = *std::min_element(usual->ranks.begin(), usual->ranks.end());
  return {culprit, Code::kMismatch, usual->operation.empty() ? odd->operation : usual->operation,
          fmt::format("mismatched call: {} called {}, {} called {}", names.text(culprit), odd->words,
                      names.text(witness), usual->words)};
}

}  // namespace trireme::net
