#include "trireme/collective/verify_static.h"

#include <algorithm>
#include <map>

#include "trireme/collective/contract.h"

namespace trireme::collective {
namespace {

std::int64_t buffer_size(const RankProgram& p, const ScheduleSpec& spec, int buffer) {
  if (buffer < 0) return -1;
  if (buffer <= p.num_partials) return caller_elems(spec, p.rank, buffer);
  const auto scratch = static_cast<std::size_t>(buffer - p.num_partials - 1);
  return scratch < p.scratch_elems.size() ? p.scratch_elems[scratch] : -1;
}

// Which steps come before which, as a bit matrix.
class Order {
 public:
  explicit Order(const RankProgram& p) : words_((p.steps.size() + 63) / 64), bits_(p.steps.size() * words_) {
    for (std::size_t i = 0; i < p.steps.size(); ++i)
      for (const std::uint32_t d : p.deps_of(p.steps[i])) {
        for (std::size_t w = 0; w < words_; ++w) bits_[i * words_ + w] |= bits_[d * words_ + w];
        bits_[i * words_ + d / 64] |= std::uint64_t{1} << (d % 64);
      }
  }
  bool before(std::size_t a, std::size_t b) const {
    return (bits_[b * words_ + a / 64] >> (a % 64) & 1) != 0;
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace

std::vector<Access> accesses_of(const Step& s, bool alias) {
  const auto access = [&](const Region& r, bool write) {
    const int buffer = static_cast<int>(r.buffer);
    return Access{alias && buffer == 1 ? 0 : buffer, r.offset, r.offset + s.count, write};
  };
  switch (s.kind) {
    case StepKind::kSend:
      return {access(s.src, false)};
    case StepKind::kRecv:
      return {access(s.dst, true)};
    case StepKind::kCopy:
    case StepKind::kReduce:
    case StepKind::kReduceLeft:
      return {access(s.src, false), access(s.dst, true)};
    case StepKind::kRecvReduce:
    case StepKind::kRecvReduceLeft:
      return {access(s.src, true), access(s.dst, true)};
    case StepKind::kReadPeer:
    case StepKind::kReadReduce:
    case StepKind::kScale:
      return {access(s.dst, true)};
  }
  return {};
}

Status check_steps(Programs programs, const ScheduleSpec& spec, std::size_t rank) {
  const RankProgram& p = programs[rank];
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    const bool message = s.kind == StepKind::kSend || is_recv(s.kind) || is_read(s.kind);
    if (message && (s.peer < 0 || s.peer >= spec.world || s.peer == p.rank))
      return broken("step {} of rank {} has no peer: got {}, expected another rank of {}", i, p.rank, s.peer,
                    spec.world);
    if (s.count < 0 || std::size_t{s.first_dep} + s.num_deps > p.deps.size())
      return broken("step {} of rank {} is malformed", i, p.rank);
    for (const std::uint32_t d : p.deps_of(s))
      if (d >= i)
        return broken("step {} of rank {} depends on step {}, which is not before it", i, p.rank, d);
    if (s.count == 0) continue;
    for (const Access& a : accesses_of(s, false))
      if (a.begin < 0 || a.end > buffer_size(p, spec, a.buffer))
        return broken("step {} of rank {} is out of bounds: got [{}, {}) of buffer {}, which has {} elements",
                      i, p.rank, a.begin, a.end, a.buffer, buffer_size(p, spec, a.buffer));
    if (!is_read(s.kind)) continue;
    const std::int64_t size =
        buffer_size(programs[static_cast<std::size_t>(s.peer)], spec, static_cast<int>(s.src.buffer));
    if (s.src.offset < 0 || s.src.offset + s.count > size)
      return broken("step {} of rank {} reads out of bounds: rank {} has {} elements there", i, p.rank,
                    s.peer, size);
  }
  return {};
}

Status check_partners(Programs programs) {
  std::map<MessageKey, std::int64_t> sends;
  for (const RankProgram& p : programs)
    for (const Step& s : p.steps)
      if (s.kind == StepKind::kSend && !sends.emplace(MessageKey{p.rank, s.peer, s.part}, s.count).second)
        return broken("rank {} sends part {} to rank {} twice", p.rank, s.part, s.peer);
  for (const RankProgram& p : programs) {
    for (const Step& s : p.steps) {
      if (!is_recv(s.kind)) continue;
      const auto it = sends.find({s.peer, p.rank, s.part});
      if (it == sends.end())
        return broken("a message has no sender: rank {} waits for part {} of rank {}", p.rank, s.part,
                      s.peer);
      if (it->second != s.count)
        return broken("a message has two sizes: rank {} sends {} elements as part {}, rank {} expects {}",
                      s.peer, it->second, s.part, p.rank, s.count);
      sends.erase(it);
    }
  }
  if (sends.empty()) return {};
  const auto [from, to, part] = sends.begin()->first;
  return broken("a message has no receiver: rank {} sends part {} to rank {}", from, part, to);
}

Status check_races(const RankProgram& p, bool alias) {
  const Order order(p);
  struct Use {
    Access access;
    std::size_t step;
  };
  std::vector<Use> uses;
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    if (p.steps[i].count == 0) continue;
    const auto accesses = accesses_of(p.steps[i], alias);
    // Within one step: a copy or sum of a region onto itself is fine, onto a part of itself is not.
    if (accesses.size() == 2 && accesses[0].buffer == accesses[1].buffer &&
        accesses[0].begin < accesses[1].end && accesses[1].begin < accesses[0].end &&
        (accesses[0].begin != accesses[1].begin || p.steps[i].kind != StepKind::kCopy))
      return broken("step {} of rank {} overlaps itself", i, p.rank);
    for (const Access& a : accesses) uses.push_back({a, i});
  }
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
    return std::tie(a.access.buffer, a.access.begin, a.step) <
           std::tie(b.access.buffer, b.access.begin, b.step);
  });
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Use& a = uses[i];
    for (std::size_t j = i + 1; j < uses.size(); ++j) {
      const Use& b = uses[j];
      if (b.access.buffer != a.access.buffer || b.access.begin >= a.access.end) break;
      if (a.step == b.step || !(a.access.write || b.access.write)) continue;
      if (order.before(a.step, b.step) || order.before(b.step, a.step)) continue;
      return broken("race: steps {} and {} of rank {} touch buffer {} at element {} in no order",
                    std::min(a.step, b.step), std::max(a.step, b.step), p.rank, a.access.buffer,
                    b.access.begin);
    }
  }
  return {};
}

}  // namespace trireme::collective
