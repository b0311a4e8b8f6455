// Proves the StepPrograms of all ranks, without running anything.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "trireme/plan/step_program.h"

namespace trireme::plan {
namespace {

using Path = cost::Traffic::Path;

Status failure(const StepProgram& program, const std::string& what) {
  return error(Code::kInternal, "[plan] step of rank {}: {}", program.rank, what);
}

// Indices of the actions of a kind, per bucket.
std::vector<std::vector<std::size_t>> by_bucket(const StepProgram& program, ActionKind kind,
                                                std::size_t buckets) {
  std::vector<std::vector<std::size_t>> out(buckets);
  for (std::size_t i = 0; i < program.actions.size(); ++i) {
    const Action& a = program.actions[i];
    if (a.kind == kind && a.bucket >= 0 && static_cast<std::size_t>(a.bucket) < buckets)
      out[static_cast<std::size_t>(a.bucket)].push_back(i);
  }
  return out;
}

// All actions that must be done before action `of`.
std::set<std::size_t> all_before(const StepProgram& program, std::size_t of) {
  std::set<std::size_t> before;
  std::vector<std::size_t> open{of};
  while (!open.empty()) {
    const std::size_t now = open.back();
    open.pop_back();
    for (const std::uint32_t d : program.deps_of(program.actions[now]))
      if (before.insert(d).second) open.push_back(d);
  }
  return before;
}

// How often a step does this with every bucket.
struct Expected {
  std::size_t sums, updates, sends;
};
Expected expected_of(const StepSpec& spec) {
  if (spec.timetable == Timetable::kLockStep) return {1, 1, 0};
  const std::size_t here = spec.updates_here ? 1 : 0;
  if (spec.path == Path::kServers) return {1, here, 1};
  return {spec.path == Path::kAllreduce ? 1U : 0U, here, spec.path == Path::kPeers ? 1U : 0U};
}

Status check_structure(const StepProgram& program) {
  for (std::size_t i = 0; i < program.actions.size(); ++i) {
    const Action& a = program.actions[i];
    if (a.first_dep + a.num_deps > program.deps.size())
      return failure(program, fmt::format("the dependencies of '{}' are out of bounds", a.to_text()));
    for (const std::uint32_t d : program.deps_of(a))
      if (d >= i) return failure(program, fmt::format("'{}' waits for what comes after it", a.to_text()));
  }
  for (const auto& [later, earlier] : program.carried)
    if (later >= program.actions.size() || earlier >= program.actions.size())
      return failure(program, "an action of the next step is not there");
  return {};
}

// Every gradient leaves once, when all cells have made it, and is applied once. A bucket whose sum travels is
// applied after it; weights travel after their update.
Status check_buckets(const StepProgram& program, const StepSpec& spec) {
  const Expected expected = expected_of(spec);
  const auto sums = by_bucket(program, ActionKind::kSum, spec.num_buckets()),
             updates = by_bucket(program, ActionKind::kUpdate, spec.num_buckets()),
             sends = by_bucket(program, ActionKind::kSend, spec.num_buckets());
  for (std::size_t b = 0; b < spec.num_buckets(); ++b) {
    const auto counted = [&](const char* what, std::size_t got, std::size_t wanted) {
      return got == wanted ? Status()
                           : failure(program, fmt::format("bucket {} is {} {} times, expected {}", b, what,
                                                          got, wanted));
    };
    TR_RETURN_IF_ERROR(counted("summed", sums[b].size(), expected.sums));
    TR_RETURN_IF_ERROR(counted("applied", updates[b].size(), expected.updates));
    TR_RETURN_IF_ERROR(counted("sent", sends[b].size(), expected.sends));
    std::set<std::size_t> first =
        updates[b].empty() ? std::set<std::size_t>{} : all_before(program, updates[b][0]);
    if (spec.timetable == Timetable::kLockStep && !first.contains(sums[b][0]))
      return failure(program, fmt::format("bucket {} is applied before it is summed", b));
    for (const auto* leaving : {&sums[b], &sends[b], &updates[b]})
      for (const std::size_t i : *leaving) {
        std::size_t cells = 0;
        for (const std::size_t d : all_before(program, i))
          cells += program.actions[d].kind == ActionKind::kCompute &&
                   program.actions[d].part == spec.final_after[b];
        if (cells != spec.cells.size())
          return failure(program, fmt::format("'{}' begins when {} of {} cells have made the gradient",
                                              program.actions[i].to_text(), cells, spec.cells.size()));
      }
  }
  return {};
}

Status check_cells(const StepProgram& program, const StepSpec& spec) {
  std::map<std::pair<parallel::Cell, std::int32_t>, int> times;
  std::size_t votes = 0;
  for (const Action& a : program.actions) {
    votes += a.kind == ActionKind::kVote;
    if (a.kind != ActionKind::kCompute) continue;
    if (++times[{a.cell, a.part}] > 1) return failure(program, fmt::format("'{}' comes twice", a.to_text()));
  }
  if (times.size() != spec.cells.size() * static_cast<std::size_t>(spec.num_parts))
    return failure(program, fmt::format("{} parts of cells are computed, expected {}", times.size(),
                                        spec.cells.size() * static_cast<std::size_t>(spec.num_parts)));
  return votes == 1 ? Status() : failure(program, fmt::format("{} votes, expected one", votes));
}

// The actions of all ranks as one graph. Those that end together are one node: a send and its recv, and the
// sums of a bucket on all ranks. The sums of a rank follow one another: if that ends, so does what runs
// several at once.
class World {
 public:
  explicit World(std::span<const StepProgram> programs) : programs_(programs) {
    for (const StepProgram& p : programs) first_.push_back(std::exchange(size_, size_ + p.actions.size()));
    node_.resize(size_);
    std::iota(node_.begin(), node_.end(), std::size_t{0});
  }

  Status check() {
    TR_RETURN_IF_ERROR(join_messages());
    join_sums();
    join_votes();
    add_edges();
    return find_circle();
  }

 private:
  // {from, to, slot, bucket, turn among equals} names a message.
  Status join_messages() {
    using Name = std::tuple<int, int, Slot, std::int32_t, int>;
    std::map<Name, std::size_t> sent, received;
    for (std::size_t r = 0; r < programs_.size(); ++r) {
      std::map<Name, int> turns;
      for (std::size_t i = 0; i < programs_[r].actions.size(); ++i) {
        const Action& a = programs_[r].actions[i];
        const bool send = a.kind == ActionKind::kSend;
        if ((!send && a.kind != ActionKind::kRecv) || a.peer < 0) continue;
        const int self = programs_[r].rank;
        Name name{send ? self : a.peer, send ? a.peer : self, a.slot, a.bucket, 0};
        std::get<4>(name) = turns[name]++;
        (send ? sent : received)[name] = first_[r] + i;
      }
    }
    for (const auto& [name, at] : sent)
      if (!received.contains(name)) return lonely(at);
    for (const auto& [name, at] : received) {
      if (!sent.contains(name)) return lonely(at);
      node_[at] = sent[name];
    }
    return {};
  }

  void join_sums() {
    std::map<std::int32_t, std::size_t> first;
    for (std::size_t r = 0; r < programs_.size(); ++r)
      for (std::size_t i = 0; i < programs_[r].actions.size(); ++i) {
        const Action& a = programs_[r].actions[i];
        if (a.kind == ActionKind::kSum && a.peer != kServerPeers)
          node_[first_[r] + i] = first.emplace(a.bucket, first_[r] + i).first->second;
      }
  }

  // A vote without a slot is the rank's own.
  void join_votes() {
    std::map<Slot, std::size_t> first;
    for (std::size_t r = 0; r < programs_.size(); ++r)
      for (std::size_t i = 0; i < programs_[r].actions.size(); ++i) {
        const Action& a = programs_[r].actions[i];
        if (a.kind == ActionKind::kVote && a.slot != 0)
          node_[first_[r] + i] = first.emplace(a.slot, first_[r] + i).first->second;
      }
  }

  void add_edges() {
    after_.resize(size_);
    waits_.resize(size_);
    for (std::size_t r = 0; r < programs_.size(); ++r) {
      std::size_t last_sum = size_;
      for (std::size_t i = 0; i < programs_[r].actions.size(); ++i) {
        const Action& a = programs_[r].actions[i];
        for (const std::uint32_t d : programs_[r].deps_of(a)) add_edge(first_[r] + d, first_[r] + i);
        if (a.kind != ActionKind::kSum) continue;
        if (last_sum < size_) add_edge(last_sum, first_[r] + i);
        last_sum = first_[r] + i;
      }
    }
  }

  void add_edge(std::size_t from, std::size_t to) {
    after_[node_[from]].push_back(node_[to]);
    ++waits_[node_[to]];
  }

  Status find_circle() {
    std::vector<std::size_t> open;
    for (std::size_t n = 0; n < size_; ++n)
      if (node_[n] == n && waits_[n] == 0) open.push_back(n);
    while (!open.empty()) {
      const std::size_t now = open.back();
      open.pop_back();
      for (const std::size_t next : after_[now])
        if (--waits_[next] == 0) open.push_back(next);
    }
    for (std::size_t n = 0; n < size_; ++n)
      if (waits_[n] > 0) return failure(*program_of(n), fmt::format("'{}' waits for itself", text_of(n)));
    return {};
  }

  const StepProgram* program_of(std::size_t n) const {
    const auto next = std::upper_bound(first_.begin(), first_.end(), n);
    return &programs_[static_cast<std::size_t>(std::distance(first_.begin(), next)) - 1];
  }
  std::string text_of(std::size_t n) const {
    const auto next = std::upper_bound(first_.begin(), first_.end(), n);
    return program_of(n)->actions[n - *std::prev(next)].to_text();
  }
  Status lonely(std::size_t n) const {
    return failure(*program_of(n), fmt::format("'{}' has no partner", text_of(n)));
  }

  std::span<const StepProgram> programs_;
  std::vector<std::size_t> first_;  // per rank: the number of its first action
  std::size_t size_ = 0;
  std::vector<std::size_t> node_;  // per action: the one that it is joined with, or itself
  std::vector<std::vector<std::size_t>> after_;
  std::vector<int> waits_;
};

}  // namespace

Status verify_steps(std::span<const StepProgram> programs, std::span<const StepSpec> specs) {
  for (std::size_t r = 0; r < programs.size(); ++r) {
    TR_RETURN_IF_ERROR(check_structure(programs[r]));
    TR_RETURN_IF_ERROR(check_cells(programs[r], specs[r]));
    TR_RETURN_IF_ERROR(check_buckets(programs[r], specs[r]));
  }
  return World(programs).check();
}

Status prove_steps(const Plan& plan, const parallel::CellOwners& owners, const StepParts& parts,
                   const cost::Traffic& traffic) {
  const int num_ranks = parallel::mesh_of(owners).num_ranks();
  if (num_ranks > kMostProvedRanks) return {};
  std::vector<StepSpec> specs;
  std::vector<StepProgram> programs;
  for (int rank = 0; rank < num_ranks; ++rank) {
    specs.push_back(step_spec(plan, owners, parts, traffic, rank));
    TR_ASSIGN_OR_RETURN(StepProgram program, build_step(specs.back()));
    programs.push_back(std::move(program));
  }
  return verify_steps(programs, specs);
}

}  // namespace trireme::plan
