#include "trireme/collective/verify_reads.h"

#include <algorithm>
#include <map>

namespace trireme::collective {
namespace {

// Which steps of all ranks come before which, through dependencies and messages, as a bit matrix.
class GlobalOrder {
 public:
  GlobalOrder(Programs programs, const std::vector<std::pair<std::size_t, std::size_t>>& finished) {
    std::size_t total = 0;
    for (const RankProgram& p : programs) {
      first_.push_back(total);
      total += p.steps.size();
    }
    words_ = (total + 63) / 64;
    bits_.resize(total * words_);
    std::map<MessageKey, std::size_t> sends;
    for (const auto& [rank, step] : finished) {
      const RankProgram& p = programs[rank];
      const Step& s = p.steps[step];
      const std::size_t me = number(rank, step);
      for (const std::uint32_t d : p.deps_of(s)) follow(me, number(rank, d));
      if (s.kind == StepKind::kSend) sends[{p.rank, s.peer, s.part}] = me;
      if (is_recv(s.kind)) follow(me, sends.at({s.peer, p.rank, s.part}));
    }
  }
  std::size_t number(std::size_t rank, std::size_t step) const { return first_[rank] + step; }
  bool before(std::size_t a, std::size_t b) const {
    return (bits_[b * words_ + a / 64] >> (a % 64) & 1) != 0;
  }

 private:
  void follow(std::size_t me, std::size_t earlier) {
    for (std::size_t w = 0; w < words_; ++w) bits_[me * words_ + w] |= bits_[earlier * words_ + w];
    bits_[me * words_ + earlier / 64] |= std::uint64_t{1} << (earlier % 64);
  }
  std::vector<std::size_t> first_;
  std::size_t words_ = 0;
  std::vector<std::uint64_t> bits_;
};

Status check_read(const GlobalOrder& order, Programs programs, std::size_t rank, std::size_t step) {
  const Step& read = programs[rank].steps[step];
  const std::size_t me = order.number(rank, step);
  const auto peer = static_cast<std::size_t>(read.peer);
  bool released = false;
  for (std::size_t i = 0; i < programs[peer].steps.size(); ++i) {
    const Step& s = programs[peer].steps[i];
    const std::size_t other = order.number(peer, i);
    released = released || order.before(me, other);
    if (s.count == 0) continue;
    for (const Access& a : accesses_of(s, false)) {
      if (!a.write || a.buffer != read.src.buffer || a.begin >= read.src.offset + read.count ||
          a.end <= read.src.offset)
        continue;
      if (!order.before(me, other) && !order.before(other, me))
        return broken("race: step {} of rank {} reads what step {} of rank {} writes, in no order", step,
                      rank, i, peer);
    }
  }
  if (!released)
    return broken("rank {} may leave before step {} of rank {} has read its memory", peer, step, rank);
  return {};
}

}  // namespace

Status check_reads(Programs programs, const std::vector<std::pair<std::size_t, std::size_t>>& finished) {
  const bool any = std::any_of(programs.begin(), programs.end(), [](const RankProgram& p) {
    return std::any_of(p.steps.begin(), p.steps.end(), [](const Step& s) { return is_read(s.kind); });
  });
  if (!any) return {};
  const GlobalOrder order(programs, finished);
  for (std::size_t r = 0; r < programs.size(); ++r)
    for (std::size_t i = 0; i < programs[r].steps.size(); ++i)
      if (is_read(programs[r].steps[i].kind)) TR_RETURN_IF_ERROR(check_read(order, programs, r, i));
  return {};
}

}  // namespace trireme::collective
