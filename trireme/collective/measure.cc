// Counts what programs do: the closed forms of the prices are tested against it.
#include <algorithm>
#include <map>
#include <tuple>

#include "trireme/collective/schedule.h"

namespace trireme::collective {
namespace {

// What precedes the end of a step: messages on the longest chain, elements on the heaviest.
struct Depth {
  std::int64_t messages = -1, elems = 0;  // -1: not known yet
  void follow(const Depth& d) {
    messages = std::max(messages, d.messages);
    elems = std::max(elems, d.elems);
  }
  Depth sent(std::int64_t count) const { return {messages + 1, elems + count}; }
};

// Steps run as soon as their dependencies and, for a recv, the matching send are known.
class Measure {
 public:
  explicit Measure(std::span<const RankProgram> programs) : programs_(programs), depth_(programs.size()) {
    for (std::size_t r = 0; r < programs.size(); ++r) depth_[r].resize(programs[r].steps.size());
  }

  Depth run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t r = 0; r < programs_.size(); ++r)
        for (std::size_t i = 0; i < programs_[r].steps.size(); ++i)
          if (depth_[r][i].messages < 0) progress = visit(r, i) || progress;
    }
    return longest_;
  }

 private:
  bool visit(std::size_t r, std::size_t i) {
    const Step& s = programs_[r].steps[i];
    Depth d{0, 0};
    for (const std::uint32_t dep : programs_[r].deps_of(s)) {
      if (depth_[r][dep].messages < 0) return false;
      d.follow(depth_[r][dep]);
    }
    if (is_recv(s.kind)) {
      const auto it = sent_.find({s.peer, static_cast<int>(r), s.part});
      if (it == sent_.end()) return false;
      d.follow(it->second);
    }
    if (s.kind == StepKind::kSend) {
      d = d.sent(s.count);
      sent_[{static_cast<int>(r), s.peer, s.part}] = d;
    }
    depth_[r][i] = d;
    longest_.follow(d);
    return true;
  }

  using Key = std::tuple<int, int, std::uint32_t>;  // from, to, part
  std::span<const RankProgram> programs_;
  std::vector<std::vector<Depth>> depth_;
  std::map<Key, Depth> sent_;
  Depth longest_{0, 0};
};

}  // namespace

Price measure_programs(std::span<const RankProgram> programs, std::int32_t elem_bytes) {
  std::int64_t most_out = 0, most_in = 0, most_added = 0;
  for (const RankProgram& p : programs) {
    std::int64_t out = 0, in = 0, added = 0;
    for (const Step& s : p.steps) {
      if (s.kind == StepKind::kSend || is_read(s.kind)) out += s.count;
      if (is_recv(s.kind)) in += s.count;
      if (is_reduce(s.kind)) added += s.count;
    }
    most_out = std::max(most_out, out);
    most_in = std::max(most_in, in);
    most_added = std::max(most_added, added);
  }
  const Depth longest = Measure(programs).run();
  return {.rounds = longest.messages,
          .bytes_per_rank = static_cast<double>(most_out * elem_bytes),
          .reduce_bytes_per_rank = static_cast<double>(most_added * elem_bytes),
          .serial_bytes = static_cast<double>(std::max({most_out, most_in, longest.elems}) * elem_bytes)};
}

}  // namespace trireme::collective
